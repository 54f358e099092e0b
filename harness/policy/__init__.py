"""The gate's policy: what a release asks of its runs, in one file that is kept with the code.

`document` says what a policy may hold, `limits` holds each run against it, `requirements` all of
them together, `regression` the figures against those of a baseline.
"""
