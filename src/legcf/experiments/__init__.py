# SPDX-License-Identifier: Apache-2.0
"""Run the paper's experiments: studies declare cells, workers run them, the store keeps results, a report shows them.

cells.py → studies.py → scheduler.py → worker.py → store.py → tables.py, plots.py, case_study.py → report.py
"""
