# SPDX-License-Identifier: Apache-2.0
"""What the server keeps: the model, the event log, the response cache."""
