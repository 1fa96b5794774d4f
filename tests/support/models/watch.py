"""Why a student is to watch and how severely, in plain Python, to compare the views with."""

from __future__ import annotations

from typing import Any

import pandas as pd

REASONS = ("is_low_completion", "is_low_score", "is_inactive", "is_never_logged_in", "is_falling")


def times_over(beyond: float, threshold: float) -> float:
    """What one reason counts: 1 at its threshold, 2 at twice it or with nothing left."""
    return 1 + min(beyond / threshold, 1)


def judged(row: dict[Any, Any], t: dict[str, float], day: pd.Timestamp) -> dict[Any, Any]:
    """One student's reasons to be watched, and how severe they are, if there are any."""
    rate = row["completion_rate"] if row["total_assignments"] > 0 else None
    rate_was = row["completion_rate_was"] if row["total_assignments_was"] > 0 else None
    is_enough, was_enough = (row[c] >= t["least_assignments"] for c in ("total_assignments", "total_assignments_was"))
    score, score_was = (None if pd.isna(row[c]) else row[c] for c in ("average_score", "average_score_was"))
    last = max((d for d in (row["last_activity_date"], row["last_activity_date_a"]) if pd.notna(d)), default=None)
    idle = None if last is None else (day - last).days
    reasons: list[str] = []
    counted: dict[str, float] = {}
    age = (day - row["registration_date"]).days
    if row["has_ever_logged_in"] is False and age >= t["never_logged_in_days"]:
        reasons.append(f"never logged in, registered {row['registration_date'].date()}")
        counted["is_never_logged_in"] = times_over(age - t["never_logged_in_days"], t["never_logged_in_days"])
    if row["has_ever_logged_in"] is not False and idle is not None and idle >= t["inactive_days"]:
        reasons.append(f"inactive for {idle:.0f} days")
        counted["is_inactive"] = times_over(idle - t["inactive_days"], t["inactive_days"])
    falls = []
    if is_enough and was_enough and rate is not None and rate_was is not None:
        falls.append(
            (rate_was - rate, f"completion fell from {rate_was:g} to {rate:g} % in {t['falling_days']:g} days")
        )
    if score is not None and score_was is not None:
        falls.append((score_was - score, f"score fell from {score_was:g} to {score:g} in {t['falling_days']:g} days"))
    if deep := [(points, words) for points, words in falls if points >= t["falling_points"]]:
        reasons += [words for _, words in deep]
        counted["is_falling"] = times_over(max(deep)[0] - t["falling_points"], t["falling_points"])
    if is_enough and rate is not None and rate < t["completion_below"]:
        reasons.append(f"low completion ({rate:g} %, under {t['completion_below']:g})")
        counted["is_low_completion"] = times_over(t["completion_below"] - rate, t["completion_below"])
    if score is not None and score < t["score_below"]:
        reasons.append(f"low score ({score:g}, under {t['score_below']:g})")
        counted["is_low_score"] = times_over(t["score_below"] - score, t["score_below"])
    return (
        {"reason": "; ".join(reasons), "reason_count": len(counted), "severity": sum(counted.values())}
        | {"completion_rate": rate, "completion_rate_before": rate_was, "average_score_before": score_was}
        | {"last_activity_date": last, "days_inactive": idle}
        | {reason: reason in counted for reason in REASONS}
    )
