"""The raw chronicles that are measured, and what is asked of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Book:
    """A raw chronicle: its run, the timeline it is compared with, the title of its source there, and the limit for
    each category of the run (recall and precision alike)."""

    run: str
    name: str
    chronicle: str
    timeline: str
    source: str
    target: float


BOOKS = (
    Book(
        "GLM-130B (English)", "GLM-130B (English)", "glm-130b/main-log-en.md", "glm-130b.yaml", "main-log-en.md", 0.95
    ),
    Book("GLM-130B (Chinese)", "GLM-130B (Chinese)", "glm-130b/main-log.md", "glm-130b.zh.yaml", "main-log.md", 0.95),
    Book(
        "BigScience 104B",
        "BigScience 104B, tr8",
        "bloom/tr8-104B-wide_chronicles.md",
        "bigscience-104b.yaml",
        "tr8-104B-wide/",
        0.85,
    ),
    Book(
        "BigScience 104B",
        "BigScience 104B, tr8b",
        "bloom/tr8b-104B_chronicles.md",
        "bigscience-104b.yaml",
        "tr8b-104B/",
        0.85,
    ),
    Book(
        "BLOOM-176B",
        "BLOOM-176B",
        "bloom/tr11-176B-ml_chronicles.md",
        "bloom-176b.yaml",
        "tr11-176B-ml/chronicles.md",
        0.9,
    ),
    Book(
        "BigScience 13B",
        "BigScience 13B",
        "bloom/tr1-13B-base_chronicles.md",
        "bigscience-13b.yaml",
        "tr1-13B-base/",
        0.8,
    ),
    Book("OPT-175B", "OPT-175B, 10%", "opt-175b/10_percent_update.md", "opt-175b.yaml", "10_percent_update.md", 0.8),
    Book("OPT-175B", "OPT-175B, 27%", "opt-175b/27_percent_update.md", "opt-175b.yaml", "27_percent_update.md", 0.8),
    Book("OPT-175B", "OPT-175B, 56%", "opt-175b/56_percent_update.md", "opt-175b.yaml", "56_percent_update.md", 0.8),
    Book("OPT-175B", "OPT-175B, final", "opt-175b/final_update.md", "opt-175b.yaml", "final_update.md", 0.8),
)
