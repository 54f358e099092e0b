"""The gate's policy: what a release asks of its runs, in one file that is kept with the code.

`document` says what a policy may hold, `requirements` holds the runs against it, each by itself and
all together, and their figures against those of a baseline.
"""
