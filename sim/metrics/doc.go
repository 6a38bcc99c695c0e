// Package metrics measures what a scheduler did. A Meter observes the events of package lab (or any others
// like them) and computes every metric of the table Definitions, which has the name, unit, formula and source
// of each; there is no second definition elsewhere.
//
//	meter, err := metrics.New(w, metrics.Options{WarmUp: 24 * time.Hour, Duration: 7 * 24 * time.Hour})
//	err = lab.Run(ctx, config, meter)
//	r := meter.Result()
//	r.Value("wait-turn-p99"), r.AccountValue(0, "share")
//
// Words of the formulas. A job is runnable when it waits for a slot: from its submission, or the end of its
// last run, or of its back-off, until it is started. A job whose node died is runnable at once, also before
// another node has noticed. The demand of an account is the number of its jobs that are runnable or run. Its
// entitlement at a moment is its part of all slots in use then, divided by weighted max-min fairness: in
// proportion to shares, except that no account gets more than its demand, and the others share what it leaves.
// Slots in use, not all slots, are divided, so that these metrics compare accounts with each other; slots that
// stood empty show in utilisation and idle-while-waiting. It is exact: entitlements change at events only, and
// an event costs the time that it takes to find its account in a sorted list.
//
// Warm-up is dropped: at its end all sums begin anew, and lags are 0. A wait, run or turnaround that began
// before and ends later counts as a whole. Waits count when they end; those that do not are in longest-gap and
// waiting-at-end.
package metrics
