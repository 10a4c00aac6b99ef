"""The report page of a run: one HTML file that needs nothing else."""

from __future__ import annotations

from scenarios.report.page import ReportPaths, write_report

__all__ = ["ReportPaths", "write_report"]
