"""Run store, Spark pipeline, report and gate."""
