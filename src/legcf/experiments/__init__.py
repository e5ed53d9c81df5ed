# SPDX-License-Identifier: Apache-2.0
"""The paper's experiments: studies declare cells, workers claim and run them, the store keeps results, a report shows.

cells.py → studies.py → scheduler.py → worker.py → store.py → tables.py, plots.py, case_study.py → report.py
"""
