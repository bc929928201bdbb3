"""Names that help texts list: kept where they can be read without torch, which takes a second or more to import.

The tables that these names stand in are `transfuse.networks.NETWORKS` and `transfuse.corrections.CORRECTIONS`; a test
holds that both have exactly these rows.
"""

NETWORK_NAMES = (
    "mlpnet", "mlpsmall", "mlplarge", "vgg11", "resnet18", "resnet18_plain", "resnet20", "rnn", "lstm",
)  # fmt: skip
CORRECTION_NAMES = ("batchnorm", "repair", "rescale", "closed_form", "refit", "selection", "free_selection", "distill")
