"""A store of finished trainings that lives as long as a test."""

from lawscope.studies.execute import execute
from lawscope.studies.plan import with_starts


class Memory:
    """Trains what it is asked for once, equal shapes as one stack, after what they begin from."""

    def __init__(self, trainings=()):
        self.runs, self.asked, self.families = {}, {}, set()
        self.train(trainings)

    def train(self, trainings):
        waiting = {k: t for k, t in with_starts(trainings).items() if not self._has(t)}
        while waiting:
            stacks = {}
            for training in waiting.values():
                if training.start is None or self._has(training.start):
                    stacks.setdefault(training.shape, []).append(training)
            for stack in stacks.values():
                for run in execute(stack, self.runs):
                    self.runs[run.training.key] = run
                    del waiting[run.training.key]

    def run(self, training):
        self.asked[training.key] = training
        if not self._has(training):
            self.train([training])
        return self.runs[training.key]

    def _has(self, training):
        run = self.runs.get(training.key)
        return run is not None and training.kept <= run.weights.keys()
