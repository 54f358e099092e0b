"""ssl.principal.mapping.rules, with the examples of Kafka's SslPrincipalMapperTest."""

import pytest

from cluster.node.security.mapping_rules import (
    MappingRuleError,
    NoMatchingRuleError,
    name_of,
    parse_rules,
)


def shown(rule):
    """As SslPrincipalMapper's Rule.toString has it."""
    if rule.pattern is None:
        return "DEFAULT"
    return f"RULE:{rule.pattern.pattern}/{rule.replacement}" + (
        f"/{rule.case}" if rule.case else ""
    )


@pytest.mark.parametrize(
    "rules",
    [
        "DEFAULT",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
        "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
        "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
        "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
    ],
)
def test_a_rule_is_read(rules):
    assert ", ".join(map(shown, parse_rules(rules))) == rules.removesuffix("/")


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:CN=(/x/",
        r"RULE:CN=(\p{L}+)/$1/",
        "RULE:CN=([a-z&&[^b]])/$1/",
    ],
)
def test_what_is_no_rule_is_refused(rules):
    with pytest.raises(MappingRuleError):
        parse_rules(rules)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("", []),
        ("DEFAULT", ["DEFAULT"]),
        ("RULE://", ["RULE:/"]),
        ("RULE:/.*/", ["RULE:/.*"]),
        ("RULE:/.*/L", ["RULE:/.*/L"]),
        ("RULE://,DEFAULT", ["RULE:/", "DEFAULT"]),
        ("  RULE:// ,  DEFAULT  ", ["RULE:/", "DEFAULT"]),
        ("  RULE:   /     / ,  DEFAULT  ", ["RULE:   /     ", "DEFAULT"]),
        ("  RULE:  /     /U   ,DEFAULT  ", ["RULE:  /     /U", "DEFAULT"]),
        (
            "  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ",
            ["RULE:([A-Z]*)/$1/U", "RULE:([a-z]+)/$1", "DEFAULT"],
        ),
        (",   , , ,      , , ,   ", []),
        (",,RULE://,,,DEFAULT,,", ["RULE:/", "DEFAULT"]),
        (",  , RULE: /   /    ,,,   DEFAULT, ,   ", ["RULE: /   ", "DEFAULT"]),
        ("     ,  , RULE:   /  /U    ,,  ,DEFAULT, ,", ["RULE:   /  /U", "DEFAULT"]),
        (r"RULE:\/\\\(\)\n\t/\/\/\//", [r"RULE:\/\\\(\)\n\t/\/\/\/"]),
        (r"RULE:\**\/+/*/L,RULE:\/*\**/**/", [r"RULE:\**\/+/*/L", r"RULE:\/*\**/**"]),
        (
            r"RULE:,RULE:,/,RULE:,\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,RULE:, DEFAULT, /DEFAULT/,DEFAULT",
            [
                r"RULE:,RULE:,/,RULE:,\//U",
                "RULE:,/RULE:,",
                "RULE:,RULE:,/L,RULE:,/L",
                "RULE:, DEFAULT, /DEFAULT",
                "DEFAULT",
            ],
        ),
    ],
)
def test_rules_are_split_where_kafka_splits_them(rules, expected):
    assert [shown(rule) for rule in parse_rules(rules)] == expected


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_applies_gives_the_name(subject, name):
    rules = parse_rules(
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
        "DEFAULT"
    )
    assert name_of(subject, rules) == name


def test_a_comma_may_be_part_of_a_name():
    rules = parse_rules(r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT")
    assert name_of(r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", rules) == r"Tkac\, Adam"


@pytest.mark.parametrize(
    ("replacement", "name"),
    [
        ("$0", "CN=a,O=b"),
        ("$2-$1", "b-a"),
        ("$12", "a2"),
        ("$1@$4", "a@$4"),
        ("$01", "a"),
        (r"\$1", "$1"),
        (r"\/$1", "/a"),
        ("cost$", "cost$"),
    ],
)
def test_a_replacement_names_groups_that_there_are(replacement, name):
    assert name_of("CN=a,O=b", parse_rules(f"RULE:CN=(.*),O=(.*)/{replacement}/")) == name


def test_every_match_is_replaced_as_by_java():
    assert name_of("CN=a", parse_rules("RULE:.*/x/")) == "xx"


@pytest.mark.parametrize("rules", ["", "RULE:^CN=(b)$/$1/"])
def test_where_no_rule_applies_there_is_no_name(rules):
    with pytest.raises(NoMatchingRuleError, match="CN=a"):
        name_of("CN=a", parse_rules(rules))
