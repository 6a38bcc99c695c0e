package schedule

import "couchrelay/core/invariant"

// What the computations rely on.
const (
	mulDivDomain invariant.ID = "schedule.muldiv: factors are not negative, and the divisor is positive"
	withinChurn  invariant.ID = "schedule.churn: at most MaxJobs runs go on, and at most MaxChurn give way"
)
