"""Limits that count over all worker processes."""

from antiphon.gateway.admission import Admission, AdmissionLimits
from antiphon.worker_processes.messages import Note
from antiphon.worker_processes.questions import Questions


class SharedAdmission(Admission):
    def __init__(self, questions: Questions, limits: AdmissionLimits) -> None:
        super().__init__(limits)
        self._questions = questions

    def noted(self, note: Note) -> None: ...
