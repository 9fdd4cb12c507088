"""The papers behind the laws."""

from __future__ import annotations

PAPERS = {
    "collapse": (
        "Vardan Papyan, X. Y. Han and David L. Donoho. Prevalence of neural collapse during the "
        "terminal phase of deep learning training. Proceedings of the National Academy of "
        "Sciences 117(40), 2020. arXiv:2008.08186."
    ),
    "layer_peeled": (
        "Cong Fang, Hangfeng He, Qi Long and Weijie J. Su. Exploring deep neural networks via "
        "layer-peeled model: Minority collapse in imbalanced training. Proceedings of the National "
        "Academy of Sciences 118(43), 2021. arXiv:2101.12699."
    ),
    "next_token": (
        "Hangfeng He and Weijie J. Su. A law of next-token prediction in large language models. "
        "2024. arXiv:2408.13442."
    ),
    "separation": (
        "Hangfeng He and Weijie J. Su. A law of data separation in deep learning. "
        "Proceedings of the National Academy of Sciences 120(36), 2023. arXiv:2210.17020."
    ),
}


def citation(law: str = "separation") -> str:
    """Return the paper to cite for a law.

    Args:
        law: name of the law.

    Returns:
        The reference as one line of text.

    Raises:
        KeyError: no such law; the message lists the known ones.

    Example:
        >>> print(citation("separation")[:21])
        Hangfeng He and Weiji
    """
    if law not in PAPERS:
        raise KeyError(f"no law named {law!r}; known: {', '.join(sorted(PAPERS))}")
    return PAPERS[law]
