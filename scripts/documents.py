"""Every figure, table and theorem of the documents: their numbers, and ours beside them.

The rows stand in the order of each document. Those with ``readme=True`` make the README's table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lawscope.studies.panels import brief
from lawscope.studies.result import StudyResult
from lawscope.studies.study import AUTHORS, NETWORK, PROTOCOLS


class Value(Protocol):
    """What a row takes from a result: of one protocol, numbers by seed or by panel."""

    def __call__(self, result: StudyResult, protocol: str) -> Any: ...


@dataclass(frozen=True)
class Sentence:
    """What a claim or question measured: all panels together, or each by itself.

    Attributes:
        begin: how the sentence begins, by which it is found.
        panels: part of the names of the panels taken.
        by_panel: each panel with its name.
    """

    begin: str
    panels: str = ""
    by_panel: bool = False

    def __call__(self, result: StudyResult, protocol: str) -> Any:
        sentences = (*result.claims, *result.questions)
        (found,) = [each for each in sentences if each.text.startswith(self.begin)]
        measured = found.columns[protocol].measured or {}
        chosen = {name: values for name, values in measured.items() if self.panels in name}
        if self.by_panel:
            return chosen
        return [one for values in chosen.values() for one in _as_list(values)]


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


@dataclass(frozen=True)
class Row:
    """One thing that a document shows.

    Attributes:
        where: its figure, table, theorem or heading.
        what: the number that stands for it.
        paper: this number there, or the document's words.
        study: which measures it.
        value: ours.
        readme: whether the README has it too.
    """

    where: str
    what: str
    paper: str
    study: str
    value: Value
    readme: bool = False

    def cells(self, result: StudyResult) -> dict[str, str]:
        """Return ours by protocol, as text; empty where the study has no such protocol."""
        return {
            protocol: brief(self.value(result, protocol)) if protocol in result.numbers else ""
            for protocol in PROTOCOLS
        }

    def verdict(self, result: StudyResult) -> str:
        """Return the verdict where the number is that of a claim."""
        if not isinstance(self.value, Sentence):
            return ""
        begin = self.value.begin
        return "".join(claim.verdict for claim in result.claims if claim.text.startswith(begin))


def of_frozen(name: str) -> Value:
    """Take a number of the networks that were trained at once, and in two halves."""

    def read(result: StudyResult, protocol: str) -> Mapping[str, Any]:
        kinds = {"at once": "standard", "in two halves": "frozen"}
        numbers = result.numbers[protocol]
        return {label: [row[name] for row in numbers[kind]["chosen"]]
                for label, kind in kinds.items()}  # fmt: skip

    return read


def of_thresholds(result: StudyResult, protocol: str) -> list[float]:
    """Take the weight decay found by optimisation over the one predicted."""
    rows = result.numbers[protocol]["thresholds"]
    return [row["found"] / row["predicted"] for row in rows]


def of_answer(result: StudyResult, protocol: str) -> str:
    """Take the answer to the first question."""
    return str(result.questions[0].columns[protocol].verdict)


S = Sentence
HE_SU_2023 = [
    Row("Figure 1", "r, nine panels of figure 1", "−1.000 to −0.997", "separation/optimizers",
        S("straight lines"), readme=True),
    Row("Figure 1", "ρ of 8 layers", "0.53", "separation/optimizers", S("ρ of 8 layers"),
        readme=True),
    Row("Figure 1", "ρ of 20 layers", "0.818", "separation/optimizers", S("ρ of 20 layers"),
        readme=True),
    Row("Figure 1", "final D, 20 layers over 8", "above 1", "separation/optimizers",
        S("20 layers end with a larger D", by_panel=True)),
    Row("Figure 2, CIFAR-10", "r of 4, 8, 20 layers", "“straight lines”", "separation/datasets",
        S("on CIFAR-10 median r", by_panel=True)),
    Row("Figure 2, imbalance", "r of 4, 8, 20 layers", "“the law emerges”", "separation/imbalance",
        S("on imbalanced data r", by_panel=True)),
    Row("Figure 2, imbalance", "half-life, imbalanced over balanced, 20 layers",
        "“significantly larger”", "separation/imbalance",
        S("the half-life is larger", "20 layers"), readme=True),
    Row("Figure 2, learning rate", "r with 0.01, 0.03, 0.1", "“straight lines”",
        "separation/learning-rate", S("median r ≤ −0.98 with every", by_panel=True)),
    Row("Figure 2, architecture", "r layer by layer", "“straight lines”", "separation/convnets",
        S("r ≤ −0.97 layer by layer", by_panel=True)),
    Row("Figure 3", "best depth", "6, 10, 12", "separation/depth",
        S("Which depth is best", by_panel=True), readme=True),
    Row("Figure 4, width", "final D, width 20 over 100", "“does not separate the data well”",
        "separation/width", S("width 20 ends")),
    Row("Figure 4, width", "final D, width 1000 over 100", "“about the same”",
        "separation/width", S("width 1000 ends")),
    Row("Figure 4, shape", "final D over that of wide-narrow", "above 1", "separation/shape",
        S("the other shapes end", by_panel=True)),
    Row("Figure 5", "r, trained at once and in two halves", "−0.997, −0.971",
        "separation/frozen", of_frozen("r"), readme=True),
    Row("Figure 5", "test accuracy of the two", "0.2385, 0.1967", "separation/frozen",
        of_frozen("test_accuracy"), readme=True),
    Row("Figure 6", "r block by block", "“straight lines”", "separation/resnet",
        S("block by block r", by_panel=True)),
    Row("Figure 6, mixed", "r of the two lines", "“straight lines”", "separation/resnet",
        S("with mixed blocks r", by_panel=True)),
    Row("Figure 6, mixed", "ρ of a block, three layers over two", "below 1", "separation/resnet",
        S("in the mixed network")),
    Row("Figure 7", "r of every sample size", "“straight lines”", "separation/sample-size",
        S("r ≤ −0.98 for every sample size")),
    Row("Figure 7", "half-life, most samples over 1000", "“can be larger”",
        "separation/sample-size", S("the half-life with the most")),
    Row("Figure 8", "classes with r ≤ −0.95, of 10", "“emerges for each class”",
        "separation/classwise", S("r ≤ −0.95 for at least 8")),
    Row("Figure 9", "r before training", "no law", "separation/emergence",
        S("there is no law before")),
    Row("Figure 9; talk", "epochs from the law to neural collapse", "“earlier”",
        "separation/emergence", S("r ≤ −0.98 is reached at an earlier checkpoint than NC1")),
    Row("Figure 10", "rank correlation of layer and time of settling", "“bottom layers earlier”",
        "separation/layer-rates", S("higher layers converge later")),
    Row("Figure 11", "rank correlation of layer and silhouette", "a picture", "separation/pca",
        S("the silhouette of the classes rises")),
    Row("Figure 12", "r on test data", "“a fuzzy version”", "separation/test-data",
        S("How straight is the line on test")),
    Row("Figure 13", "r of the five new layers", "“the law also emerges”",
        "separation/pretraining", S("the new layers obey")),
    Row("Figure 13", "gain of two lines over one", "“quite different”", "separation/pretraining",
        S("kept and new layers together")),
    Row("Figure 14", "r in a text encoder", "“does not exist”", "separation/text-encoder",
        S("no network that fits", by_panel=True)),
    Row("Text", "r, linear network less plain", "“the nonlinearity is vital”",
        "separation/ablations", S("in the linear network, fitting")),
    Row("Text", "r, without BatchNorm less plain", "BatchNorm by default",
        "separation/ablations", S("without BatchNorm")),
    Row("Text", "range of log ρ by factor, over that by optimiser", "above 1",
        "separation/decay-factors", S("every other factor", by_panel=True)),
    Row("Abstract", "rank correlation of r with test accuracy (upper end)",
        "“indicative of good performance”", "separation/performance",
        S("within an architecture", by_panel=True)),
    Row("Training", "excess sensitivity, with the law less without", "least with equal ratios",
        "separation/robustness", S("the sensitivity is nearer")),
    Row("Training", "r of frozen training, fine-tuned less before", "“reactivate the law”",
        "separation/reactivation", S("fine-tuning makes the line straighter")),
    Row("Training", "test accuracy, fine-tuned less before", "“same or better”",
        "separation/reactivation", S("test accuracy of the straightest")),
    Row("Training (proposed)", "accuracy lost at the balanced share", "no number",
        "separation/transfer", S("Does the share nearest to balance", by_panel=True)),
]  # fmt: skip

FANG_2021 = [
    Row("Theorem, balanced training", "cosine of classifiers, error against −1/(K−1)", "0",
        "peeled/balanced", S("classifiers form a simplex")),
    Row("Theorem, balanced training", "h_k against √(E_H/E_W) w_k, error", "0", "peeled/balanced",
        S("features are classifiers")),
    Row("Proposition, q ≠ 2", "loss below the best neural collapse, q = 1.5, 3, 4",
        "no collapse", "peeled/q-norm", S("for q ≠ 2")),
    Row("Neural collapse", "verdict at the end of training", "all of it collapses",
        "collapse/terminal", S("all four measures fall")),
    Row("Remarks on the model", "rank correlation of E_W, E_H and weight decay",
        "“depend on the weight decay”", "collapse/energies",
        S("both energies fall", by_panel=True)),
    Row("A numerical surprise", "R₀ beyond which rare classes merge, K_A = 5",
        "finite, larger with E_H", "peeled/minority-angle",
        S("At which R₀", "K_A = 5", by_panel=True), readme=True),
    Row("A numerical surprise", "R₀ at E_H = 10 over that at E_H = 5", "above 1",
        "peeled/minority-angle", S("a larger E_H", by_panel=True)),
    Row("Proposition, R → ∞", "least angle of class means and classifiers (degrees)",
        "no longer collapse to classifiers", "peeled/minority-angle", S("for every R > 1")),
    Row("Minority Collapse in experiments", "cosine of minority classifiers, largest R less R = 1",
        "rises", "collapse/minority", S("the angle between minority", by_panel=True)),
    Row("Predictions match experiments", "ratios R at which network and model differ", "0",
        "collapse/minority", S("classifiers merge", by_panel=True)),
    Row("Table, original", "minority accuracy at the largest R", "0.055 to 0.343",
        "collapse/minority", S("What minority test accuracy"), readme=True),
    Row("Oversampling in theory", "cosine at w_r = R, error against −1/(K−1)", "0",
        "peeled/oversampling", S("at w_r = R the simplex")),
    Row("Oversampling mitigates", "cosine of minority classifiers, largest w_r less none",
        "falls", "collapse/oversampling", S("on training data minority", by_panel=True)),
    Row("Table, minority", "minority accuracy gained", "0.026 to 0.369", "collapse/oversampling",
        S("minority test accuracy rises", by_panel=True)),
    Row("Table, overall", "overall accuracy gained", "0.010 to 0.186", "collapse/oversampling",
        S("overall test accuracy rises", by_panel=True)),
    Row("Table", "best w_r over the largest", "below 1", "collapse/oversampling",
        S("the w_r of the best")),
    Row("Remarks on oversampling", "minority accuracy of a fixed classifier less plain",
        "an open question", "collapse/fixed-classifier",
        S("Is minority test accuracy higher than with plain", by_panel=True)),
    Row("Future directions", "excess over chance among minority classes that is left",
        "“completely at random”", "collapse/fairness",
        S("the choice among minority", by_panel=True)),
    Row("Future directions", "R₀ with class weights 1/n over that of cross-entropy",
        "an open question", "peeled/losses", S("Does weighting classes by 1/n")),
    Row("Future directions", "classifiers that vanish in a long tail", "an open question",
        "peeled/long-tail", S("Do classifiers of rare classes vanish", by_panel=True)),
    Row("Multiple Layer-Peeled Model", "best loss over that of neural collapse, less 1",
        "an open question", "peeled/two-layer", S("Is the simplex still", by_panel=True)),
]  # fmt: skip

HE_SU_2024 = [
    Row("Experiments", "r of next-token prediction, stories-260K on stories", "“straight lines”",
        "next-token/law", S("stories-260K: r", "text.txt"), readme=True),
    Row("Experiments", "r of next-token prediction, SmolLM2", "“straight lines”",
        "next-token/law", S("SmolLM2-135M: r"), readme=True),
    Row("Experiments, GPT-2 XL", "r", "“straight lines”", "next-token/law",
        S("openai-community/gpt2-xl")),
    Row("Experiments, Llama-3-8B", "r", "“straight lines”", "next-token/law",
        S("meta-llama/Meta-Llama-3-8B")),
    Row("Experiments, Mistral-7B", "r", "“straight lines”", "next-token/law",
        S("mistralai/Mistral-7B-v0.1")),
    Row("Experiments; RWKV, Mamba", "r of models trained here", "“straight lines”",
        "next-token/architectures", S("How straight are the lines", by_panel=True)),
    Row("Experiments", "r of a GPT trained here", "“straight lines”", "next-token/training",
        S("at the end PR falls")),
    Row("Raw embeddings are chaotic", "rank correlation of block and silhouette", "a picture",
        "next-token/pictures", S("the pictures show no order")),
    Row("Varying model sizes", "r", "“straight lines”", "next-token/model-size",
        S("r ≤ −0.9 at every size", by_panel=True)),
    Row("Tasks matter", "r with the task it was trained for", "a picture", "next-token/tasks",
        S("a masked model measured with its own")),
    Row("Tasks matter", "r with next tokens", "a picture", "next-token/tasks",
        S("measured with next tokens")),
    Row("Information flow", "slope of log PR of the next token", "below 0",
        "next-token/information-flow", S("PR of the next token falls")),
    Row("Information flow", "slope of log PR of the current token", "above 0",
        "next-token/information-flow", S("PR of the current token rises")),
    Row("The index of a token", "shuffled vocabularies in which PR falls (share)",
        "an open question", "next-token/vocabulary", S("Does PR fall with depth in at least")),
]  # fmt: skip

ZHANG_2021 = [
    Row("Local elasticity", "gap of own class and others, after learning less before", "above 0",
        "elasticity/emergence", S("shapes: the gap of relative")),
    Row("Separation theorem, part 1", "draws that are separable, γ = 1/√t", "1",
        "elasticity/separation-theorem", S("with γ = 1/√t and β = 0")),
    Row("Separation theorem, part 2", "pairs that are separable, γ = 0.3/(t ln t)", "0",
        "elasticity/separation-theorem", S("with γ = 0.3/(t ln t) and β = 0")),
    Row("Separation theorem, any β", "the same with a constant negative β, part 1", "1",
        "elasticity/separation-theorem", S("also with a constant negative")),
    Row("Separation theorem, any β", "the same with a constant positive β, part 2", "0",
        "elasticity/separation-theorem", S("also with a constant positive")),
    Row("Neural collapse of the LE-ODE", "largest cosine error, ∫β = −∞", "0",
        "elasticity/ode-collapse", S("with β < 0 whose integral")),
    Row("Neural collapse of the LE-ODE", "largest cosine error, β = −1/t²", "0",
        "elasticity/ode-collapse", S("also with β < 0", by_panel=True)),
    Row("Figure 1, GeoMNIST", "cosine error, end over step 1000", "“tend to form ETFs”",
        "elasticity/ode-collapse", S("shapes: genuine class means")),
    Row("Figure 1, CIFAR", "cosine error, end over step 1000", "“tend to form ETFs”",
        "elasticity/ode-collapse", S("CIFAR-10, K = 3: genuine")),
    Row("Linearization 1 of 5", "relative error of decoupling near the start, shapes", "small",
        "elasticity/linearization", S("shapes: near the start")),
    Row("Linearization 2 and 3 of 5", "relative error of the linearised softmax there", "small",
        "elasticity/linearization", S("shapes: there the linearised")),
    Row("Linearization 4 of 5", "change of the residue there", "“constant residue”",
        "elasticity/linearization", S("shapes: there the residue")),
    Row("Linearization 4 of 5", "residue at convergence, of its first value",
        "“vanishing residue”", "elasticity/linearization", S("shapes: at convergence")),
    Row("Figure 2, GeoMNIST, I-model", "steps with α̂ > β̂ (share)", "1", "elasticity/estimation",
        S("shapes: α̂ > β̂ (I-model)")),
    Row("Figure 2, GeoMNIST, L-model", "steps with α̂ > β̂ (share)", "1", "elasticity/estimation",
        S("shapes: α̂ > β̂ (L-model)")),
    Row("Figure 2, CIFAR, I-model", "steps with α̂ > β̂ (share), K = 3", "1",
        "elasticity/estimation", S("CIFAR-10, K = 3: α̂ > β̂ (I-model)")),
    Row("Figure 2, CIFAR, L-model", "steps with α̂ > β̂ (share), K = 3", "1",
        "elasticity/estimation", S("CIFAR-10, K = 3: α̂ > β̂ (L-model)")),
    Row("Figure 3", "share of wrong labels at which learning turns round", "2/3",
        "elasticity/label-noise", of_answer, readme=True),
    Row("Figure 3b", "validation accuracy above p = 2/3", "chance", "elasticity/label-noise",
        S("above p = 2/3", by_panel=True)),
    Row("Figure 3c", "lead of the tail index that should be larger, I-model", "above 0",
        "elasticity/label-noise", S("I-model: the tail index")),
    Row("Figure 3d", "lead of the tail index that should be larger, L-model", "above 0",
        "elasticity/label-noise", S("L-model: the tail index")),
    Row("Figures 4 and 5, GeoMNIST", "RD of the L- over the I-estimates, late", "below 1",
        "elasticity/imitation", S("shapes: RD of the L-estimates is below")),
    Row("Figures 4 and 5, CIFAR", "RD of the L- over the I-estimates, late, K = 3", "below 1",
        "elasticity/imitation", S("CIFAR-10, K = 3: RD of the L-estimates is below")),
    Row("Future works", "RD with the sampling matrix over that without", "an open question",
        "elasticity/sampling", S("Does the sampling matrix")),
]  # fmt: skip

ZIYIN_2024 = [
    Row("Landscape, theorem", "weight decay at which a symmetry collapses, found over predicted",
        "1", "symmetry/landscape", of_thresholds, readme=True),
    Row("Arbitrary discrete group", "spread of three exchangeable weights above the threshold",
        "0", "symmetry/landscape", S("three exchangeable neurons")),
    Row("Mirror symmetries", "oddness of the loss across the mirror", "0", "symmetry/mirror",
        S("exchange of two units")),
    Row("Mirror symmetries", "c₀ of merged units", "above 0", "symmetry/mirror",
        S("merged tanh units")),
    Row("Activation patterns", "effective rank, largest decay less none", "“low rank”",
        "symmetry/weight-decay", S("the effective rank of the last", by_panel=True)),
    Row("Figure 5, upper", "units in blocks before the activation, decay 0.001 (share)",
        "“homogeneous blocks”", "symmetry/weight-decay",
        S("with decay 0.001 at least 30 % are, before", by_panel=True)),
    Row("Figure 5, lower", "units in blocks after the activation, decay 0.001 (share)",
        "“homogeneous blocks”", "symmetry/weight-decay",
        S("with decay 0.001 at least 30 % are, after", by_panel=True)),
    Row("Figure 5, inset", "units in blocks without decay (share)", "“very rare”",
        "symmetry/weight-decay", S("without decay at most 10 %", by_panel=True)),
    Row("Self-supervised learning", "modes left less modes predicted, linear", "0",
        "symmetry/contrastive", S("linear: as many modes")),
    Row("Self-supervised learning", "effective rank on images, largest decay less none", "falls",
        "symmetry/contrastive", S("images: the effective rank", by_panel=True)),
    Row("Figure 3, posterior collapse", "modes left less modes predicted, linear", "0",
        "symmetry/posterior-collapse", S("linear β-VAE: as many modes")),
    Row("Figure 3, posterior collapse", "latents at work less those predicted, on MNIST", "0",
        "symmetry/posterior-collapse", S("small VAE: latent variables", by_panel=True)),
    Row("Removing symmetry", "effective rank of W − θ₀, removed less plain", "above 0",
        "symmetry/removal", S("so is that of what was learned", by_panel=True)),
    Row("Algorithms by symmetry", "u∘v and UV against the L1 and nuclear penalty, error", "0",
        "symmetry/compression", S("linear regression on u∘v", by_panel=True)),
    Row("Noether’s theorem", "drift of a charge at a tenth of the rate", "0.1",
        "conservation/charges", S("gradient flow conserves")),
    Row("Breakdown of the theorem", "drift under SGD over gradient descent", "above 1",
        "conservation/charges", S("SGD does not", by_panel=True)),
    Row("Theorem 4.3", "distance of SGD’s end from C*", "0", "conservation/equilibrium",
        S("SGD ends at the predicted")),
    Row("Theorem 4.3", "what SGD leaves of a spread of starts", "0", "conservation/equilibrium",
        S("SGD forgets its start"), readme=True),
    Row("Message", "what gradient descent leaves of it", "1", "conservation/equilibrium",
        S("gradient descent does not")),
    Row("Scale invariance", "|w|⁴ over 2η²Gt", "1", "conservation/scale-invariance",
        S("under SGD |w|⁴")),
    Row("Figure 8", "largest over smallest norm of interior layers, MNIST", "1",
        "conservation/deep-linear", S("MNIST: interior layers reach one norm", by_panel=True)),
    Row("Theorem 5.4, balance", "norms against the predicted, largest error, MNIST", "0",
        "conservation/deep-linear", S("MNIST: all norms", by_panel=True)),
    Row("Theorem 5.4, orthogonality", "deviation of singular values, MNIST", "0",
        "conservation/deep-linear", S("MNIST: interior layers are multiples", by_panel=True)),
    Row("Theorem 5.4, alignment", "cosine, MNIST", "1", "conservation/deep-linear",
        S("MNIST: W₄", by_panel=True)),
    Row("Sharpness up and down", "Tr H at the end against the predicted, error", "0",
        "conservation/sharpness", S("Tr H ends within")),
    Row("Figure 3, stability", "S of SGD at the end over the predicted", "1",
        "conservation/warm-up", S("SGD from Kaiming and from Xavier", by_panel=True)),
    Row("Figure 3, stability", "change of S under gradient descent", "“only slightly”",
        "conservation/warm-up", S("gradient descent from Kaiming")),
    Row("Figure 4", "cosine of the layers, SGD less gradient descent, tanh", "above 0",
        "conservation/features", S("tanh: the cosine")),
    Row("Figure 4, appendix", "the same, other activations", "above 0", "conservation/features",
        S("linear, ReLU, SiLU", by_panel=True)),
    Row("Figure 1", "deviations above the null, the least of six, residual network",
        "“significantly”", "representation/alignment",
        S("in both fully connected layers", by_panel=True)),
    Row("Section C.7", "cosine of −E[g_b h_bᵀ] and WWᵀ over its bar", "“well aligned”",
        "representation/alignment", S("with decay 0.01 the cosine")),
    Row("Einstein’s relation", "D over μ⟨x²⟩", "1", "representation/fluctuation-dissipation",
        S("for noise ⟨ξ(t)ξ(t′)⟩")),
    Row("Fluctuation–dissipation", "what is left of the balance, over 2λZ_b", "0",
        "representation/fluctuation-dissipation",
        S("at stationarity dissipation", by_panel=True)),
    Row("Theorem 1, equation 7", "what is left, over Z", "0",
        "representation/fluctuation-dissipation", S("stationary: Z_b", by_panel=True)),
    Row("Theorem 1, equation 8", "least of six alignments near a minimum", "1",
        "representation/fluctuation-dissipation", S("near a local minimum", by_panel=True)),
    Row("Noise and regularization", "99 % rank of H_b, largest decay less none", "falls",
        "representation/weight-decay",
        S("the 99 % rank of H_b is lower with the largest decay than without, at equal steps",
          by_panel=True)),
    Row("Neural collapse", "correlation of H_a and WᵀW where NC1 is small", "1",
        "representation/neural-collapse-nfa", S("where NC1")),
    Row("Neural feature ansatz", "excess of WᵀW with E[∇ℓ∇ℓᵀ], decay 0.01", "above 0",
        "representation/neural-collapse-nfa", S("neural feature ansatz", by_panel=True)),
    Row("Meaning of the hypothesis", "cost along H_b over random directions", "above 1",
        "representation/neural-collapse-nfa", S("neuron variation", by_panel=True)),
    Row("Theorem 2, part 1", "least cosine of the third alignment", "1", "representation/phases",
        S("two alignments of a side")),
    Row("Theorem 2, part 3", "least cosine of six", "1", "representation/phases",
        S("one of each side")),
    Row("Theorem 2, part 4", "spread of the spectra", "0", "representation/phases",
        S("all six make")),
    Row("Table 1", "exponents of synthetic layers, largest error", "0", "representation/phases",
        S("on synthetic layers of phases")),
    Row("Figure 3, alignment", "exponent of H against G, queries in layers 1 to 6",
        "3, 2, 1, 1, 1, 1", "representation/transformer",
        S("What is α of sorted", "q, layer", by_panel=True), readme=True),
]  # fmt: skip

# What is about which document; a family of studies is a file of results and a page.
DOCUMENTS = {
    "He & Su 2023": HE_SU_2023,
    "Fang et al. 2021": FANG_2021,
    "He & Su 2024": HE_SU_2024,
    "Zhang et al. 2021": ZHANG_2021,
    "Ziyin et al. 2024": ZIYIN_2024,
}


def readme_table(result_of: Callable[[str], StudyResult]) -> list[list[str]]:
    """Return the README's table: the titles, then one row each."""
    table = [["", "paper", *PROTOCOLS.values()]]
    for row in (row for rows in DOCUMENTS.values() for row in rows if row.readme):
        cells = row.cells(result_of(row.study))
        table.append([row.what, row.paper, *(cells[protocol] for protocol in PROTOCOLS)])
    return table


def document_table(
    name: str, result_of: Callable[[str], StudyResult], link: Callable[[StudyResult], str]
) -> list[list[str]]:
    """Return all rows of a document: where, what, its number, ours, the verdict, the study."""
    rows = [(row, result_of(row.study)) for row in DOCUMENTS[name]]
    known = any(AUTHORS in result.numbers for _, result in rows)
    ours = PROTOCOLS if known else {NETWORK: "ours"}
    table = [["in the document", "what", "there", *ours.values(), "verdict", "study"]]
    for row, result in rows:
        cells = row.cells(result)
        numbers = [cells[protocol] for protocol in ours]
        table.append([row.where, row.what, row.paper, *numbers, row.verdict(result), link(result)])
    return table
