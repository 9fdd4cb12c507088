"""Four tiny networks, one of which begins from another."""

from lawscope.studies.datasets import ImageData
from lawscope.studies.plan import Network, Training
from lawscope.studies.study import Claim, NotTried, Study
from lawscope.training.recipe import Recipe

DATA = ImageData(per_class=10)


def network(depth, lr, epochs, seed=0, **more):
    recipe = Recipe(lr=lr, epochs=epochs, seed=seed)
    return Training(Network.of("feedforward", depth=depth), recipe, DATA, seed, **more)


def plan(settings):
    fresh = [
        network(3, lr, settings["epochs"], seed)
        for lr in settings["rates"]
        for seed in range(settings["seeds"])
    ]
    return [*fresh, network(3, 1e-3, 1, start=fresh[0], copied=1)]


def measure(lab):
    trainings = plan(lab.settings)
    lab.tell(f"measuring {len(trainings)} networks")
    return {
        "loss": [lab.run(training).loss for training in trainings],
        "D": lab.separation(trainings[0], uncertainty=None).values,
        "nothing": float("nan"),
    }


def none_found(numbers):
    raise NotTried("no unicorn was found")


def figure(numbers):
    from matplotlib.figure import Figure

    drawing = Figure()
    drawing.subplots().plot(numbers["D"])
    return drawing


SETTINGS = {"rates": [1e-3, 1e-2], "epochs": 2, "seeds": 1}
CLAIMS = (
    Claim("the loss is positive", "> 0", lambda n: min(n["loss"]), lambda v: v > 0),
    Claim("the loss is negative", "< 0", lambda n: min(n["loss"]), lambda v: v < 0),
    Claim("unicorns exist", "one", none_found, lambda v: v > 0),
)
STUDY = Study(
    title="Four tiny networks",
    source="Nobody 2000, figure 0",
    paper="the loss is positive",
    minutes={"smoke": 0.1, "cpu": 0.1, "paper": 600},
    settings={"smoke": SETTINGS, "cpu": {**SETTINGS, "seeds": 2}, "paper": SETTINGS},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
