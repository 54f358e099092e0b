"""The gate: whether a build may be released, by runs that are judged again."""
