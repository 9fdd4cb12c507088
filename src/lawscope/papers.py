"""The papers behind the laws."""

from __future__ import annotations

PAPERS = {
    "collapse": (
        "Vardan Papyan, X. Y. Han and David L. Donoho. Prevalence of neural collapse during the "
        "terminal phase of deep learning training. Proceedings of the National Academy of "
        "Sciences 117(40), 2020. arXiv:2008.08186."
    ),
    "conserved": (
        "Sibylle Marcotte, Rémi Gribonval and Gabriel Peyré. Abide by the law and follow the flow: "
        "Conservation laws for gradient flows. Advances in Neural Information Processing Systems "
        "36, 2023. arXiv:2307.00144."
    ),
    "elastic": (
        "Jiayao Zhang, Hua Wang and Weijie J. Su. Imitating deep learning dynamics via locally "
        "elastic stochastic differential equations. Advances in Neural Information Processing "
        "Systems 34, 2021. arXiv:2110.05960."
    ),
    "elasticity": (
        "Hangfeng He and Weijie J. Su. The local elasticity of neural networks. International "
        "Conference on Learning Representations, 2020. arXiv:1910.06943."
    ),
    "layer_peeled": (
        "Cong Fang, Hangfeng He, Qi Long and Weijie J. Su. Exploring deep neural networks via "
        "layer-peeled model: Minority collapse in imbalanced training. Proceedings of the National "
        "Academy of Sciences 118(43), 2021. arXiv:2101.12699."
    ),
    "neural_mechanics": (
        "Daniel Kunin, Javier Sagastuy-Brena, Surya Ganguli, Daniel L. K. Yamins and Hidenori "
        "Tanaka. Neural mechanics: Symmetry and broken conservation laws in deep learning "
        "dynamics. International Conference on Learning Representations, 2021. arXiv:2012.04728."
    ),
    "next_token": (
        "Hangfeng He and Weijie J. Su. A law of next-token prediction in large language models. "
        "2024. arXiv:2408.13442."
    ),
    "noise_equilibrium": (
        "Liu Ziyin, Mingze Wang, Hongchao Li and Lei Wu. Parameter symmetry and noise equilibrium "
        "of stochastic gradient descent. Advances in Neural Information Processing Systems 37, "
        "2024. arXiv:2402.07193."
    ),
    "representation": (
        "Liu Ziyin, Isaac Chuang, Tomer Galanti and Tomaso Poggio. Formation of representations in "
        "neural networks. 2024. arXiv:2410.03006."
    ),
    "separation": (
        "Hangfeng He and Weijie J. Su. A law of data separation in deep learning. "
        "Proceedings of the National Academy of Sciences 120(36), 2023. arXiv:2210.17020."
    ),
    "symmetry": (
        "Liu Ziyin. Symmetry induces structure and constraint of learning. International "
        "Conference on Machine Learning, 2024. arXiv:2309.16932."
    ),
}
