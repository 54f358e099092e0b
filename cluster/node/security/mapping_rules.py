r"""`ssl.principal.mapping.rules`: from the subject of a certificate to a user's name (KIP-371).

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT

The first rule whose pattern is the whole subject gives the name; its replacement may name groups
(`$1`), `L` and `U` make it lower and upper case, DEFAULT is the subject itself. Where none applies
the client is hung up on. As in SslPrincipalMapper: empty rules are passed by, a reference to a
group that the pattern does not have is text, and every match of the pattern in the subject is
replaced (`.*` has two, the second of nothing).

Patterns are Java's there and Python's here, with classes of ASCII. What only Java has (`\p{L}`,
`[a-z&&[^b]]`, `\Q`) is refused.
"""

from __future__ import annotations

import re
import warnings
from typing import Final

from cluster.values import valueclass

DEFAULT_RULES: Final = "DEFAULT"
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|\Z)")
_PARSER: Final = re.compile(_RULE)
_PARTS: Final = re.compile(r"\\(.)|\$([0-9]+)|(.)", re.DOTALL)


class MappingRuleError(ValueError):
    """A rule that is none."""


class NoMatchingRuleError(ValueError):
    """No rule applies to a subject."""


@valueclass
class MappingRule:
    """One rule. `pattern` is None for DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""
    """"L", "U", or empty."""

    def apply(self, subject: str) -> str | None:
        """Return the name that the rule gives to a subject, None where it does not apply."""
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(self._replace, subject)
        return {"L": name.lower, "U": name.upper}.get(self.case, name.__str__)()

    def _replace(self, match: re.Match[str]) -> str:
        found = []
        for escaped, digits, plain in _PARTS.findall(self.replacement):
            if digits:
                group, rest = _reference(digits, match.re.groups)
                text = f"${digits}" if group is None else (match[group] or "") + rest
                found.append(text)
            else:
                found.append(escaped or plain)
        return "".join(found)


def _reference(digits: str, groups: int) -> tuple[int | None, str]:
    """Return the group that `$digits` means, and what of the digits is text (appendReplacement).

    As many digits count as make a group that there is; None: not even the first one does.
    """
    group = int(digits[0])
    if group > groups:
        return None, ""
    taken = 1
    while taken < len(digits) and group * 10 + int(digits[taken]) <= groups:
        group = group * 10 + int(digits[taken])
        taken += 1
    return group, digits[taken:]


def parse_rules(text: str) -> tuple[MappingRule, ...]:
    """Parse rules that are separated by commas. Raises MappingRuleError."""
    rules = (_parse(found[1]) for found in _SPLITTER.finditer(text.strip()))
    return tuple(rule for rule in rules if rule is not None)


def _parse(text: str) -> MappingRule | None:
    found = _PARSER.match(text)
    if found is None or found.end() != len(text):
        raise MappingRuleError(f"expected DEFAULT or RULE:pattern/replacement/[LU], not {text!r}")
    default, pattern, replacement, case, _ = found.groups()
    if default:
        return MappingRule()
    if pattern is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what Python may read otherwise one day, as Java does
            compiled = re.compile(pattern, re.ASCII)
    except (re.error, FutureWarning, DeprecationWarning) as error:
        raise MappingRuleError(f"{pattern!r} is no pattern here: {error}") from error
    return MappingRule(compiled, replacement, case)


def name_of(subject: str, rules: tuple[MappingRule, ...]) -> str:
    """Return the name that the first rule gives that applies. Raises NoMatchingRuleError."""
    for rule in rules:
        name = rule.apply(subject)
        if name is not None:
            return name
    raise NoMatchingRuleError(f"no rule applies to {subject!r}")
