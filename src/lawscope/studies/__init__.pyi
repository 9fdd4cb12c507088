from .registry import families as families
from .registry import names as names
from .result import StudyResult as StudyResult
from .result import load as load
from .runner import run as run
from .runner import run_many as run_many
