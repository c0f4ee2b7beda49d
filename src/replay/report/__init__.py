"""A run's post-mortem as one HTML file that needs no network."""

from replay.report.build import build_report
from replay.report.write import prepare_report, write_report

__all__ = ["build_report", "prepare_report", "write_report"]
