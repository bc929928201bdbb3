"""The paper's tables and figures, on real data: `python -m experiments list | run | tables | figures`.

In: the official files of the data sets. Out: a line of JSON for each run; tables and figures are made of these lines
alone. Everything here uses the public names of transfuse, as a user would. See docs/experiments.md.
"""
