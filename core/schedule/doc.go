// Package schedule decides which jobs run: the order in which they get slots, how the use of the service by
// their accounts changes that order, and which of the running jobs give way to waiting ones. It is pure
// computation on plain values, in integers; it knows no store and no replication.
//
// # Fair share without touching waiting jobs
//
// RFC 017 is Kay and Lauder's scheme ("A Fair Share Scheduler", 1988) for replications. Each job has a
// priority value; the lowest runs first. In every interval
//
//  1. the usage of each account is multiplied by K1 and grows by what its jobs used (Forgetting, Ledger),
//  2. the priority value of every job is multiplied by K2 (Decay), and
//  3. that of every running job grows by usage * jobs / shares^2 of its account (Growth).
//
// Step 2 touches every job in every interval, which a shared store with many jobs cannot bear. But it
// multiplies all values alike, so it never changes the order of two waiting jobs. So a job is queued once,
// under a key that tells when its value will have decayed to 1 (see Decay); ordering jobs by their keys is
// ordering them by their decayed values at any later time. Only the values of running jobs are kept up to
// date, by their worker, once in an interval. A test compares shares and waits with a simulation that
// follows the three steps to the letter.
//
// # Weights
//
// Weights divide what an account gets among its jobs: of those that always wait, each has time in proportion to its
// weight w. With n jobs whose weights are W together, and so W/n on the average,
//
//   - under fair share a job's value grows by usage * W / (w * shares^2). All jobs rise to one height, so each runs
//     for a part w/W of what the account uses, U, and the heights of all accounts are one for U in proportion to
//     their shares, as before;
//   - under tags (and stride, lottery, eevdf) a job whose turn began at the tag b is queued at
//     b + (t-b) * (W/n) / w, no lower than the floor, where t is the account's next tag. Of jobs whose turns take
//     the same time, all t-b are alike in the long run, so the ways from turn to turn are as 1/w. The account pays
//     as before;
//   - under fifo they mean nothing, as shares do.
//
// Only proportions count: weights that are all alike, or all doubled, change no key (TestEqualWeights). The account's
// share stays as long as no job's part is more than a slot. Where it is, an account gets as much under tags, and less
// under fair share, whose W has the weight that such a job cannot use. A waiting job is not touched here either: a new
// weight holds from the next turn on.
//
// # Policies
//
// What makes an order is its Rules: where a job is queued when it is new and after each turn, what a turn costs
// its account, and which running job gives way first. Everything else (places, epochs, rotation, the rows in the
// store) is common to all policies.
package schedule
