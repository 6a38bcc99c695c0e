package capture

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
	"couchrelay/sim/workload"
)

// Capture is a workload with what else is known of the service.
type Capture struct {
	Workload *workload.Workload
	// Settings are those of [replicator] and [replicator.shares] that could be read and that couchrelay has,
	// in the order of files.
	Settings []Setting
	// Notes say what was estimated, and what could not be read.
	Notes []string
}

// Setting is a key of a configuration file.
type Setting struct{ Section, Key, Value string }

// INI returns the settings as the text of a configuration file.
func (c *Capture) INI() string {
	var text strings.Builder
	section := ""
	for _, s := range c.Settings {
		if s.Section != section {
			section = s.Section
			fmt.Fprintf(&text, "[%s]\n", section)
		}
		fmt.Fprintf(&text, "%s = %s\n", s.Key, s.Value)
	}
	return text.String()
}

// observed is what was seen of a service.
type observed struct {
	jobs     []*job
	settings map[string]string // of [replicator]
	shares   map[string]string // of [replicator.shares]
	sizes    []float64         // of one-shots that have completed
	notes    []string
}

func (o *observed) note(format string, args ...any) {
	o.notes = append(o.notes, fmt.Sprintf(format, args...))
}

// job is what was seen of a job.
type job struct {
	account    string
	name       string // no other job has it
	endpoint   string // host and port of the source
	continuous bool
	weight     int64 // 0 if it was not told
	submit     time.Duration
	remove     time.Duration // 0 if it was not seen to go
	looks      []look
	age        time.Duration   // at the first look
	ran        time.Duration   // as far as is known
	crashes    int             // in that time
	startups   []time.Duration // of runs
	size       float64         // of a one-shot that was seen to complete, else 0
}

// look is a moment of a run at which its counters were told.
type look struct {
	at      time.Duration
	run     uint64  // looks of one run have the same; 0 for a job that does not run
	done    float64 // changes that are done, in all the job's life
	pending float64 // changes that are not; negative if that is not told
	last    bool    // the run has just completed
}

// done returns how many changes are done: the target has them already, or took them, or refused them.
func done(checked, missing, written, refused int64) float64 {
	return float64(max(0, checked-missing) + written + refused)
}

// drained is the most changes that may be pending for a look to be trusted with a rate: up to some thousand
// changes are in flight while there is a backlog, and are pending as well as partly done.
const drained = 100

// Estimates that are made where nothing is known.
const (
	unknownSpeed   = 50.0 // changes a second
	unknownSize    = 10_000.0
	unknownStartup = 2 * time.Second
)

// rate estimates how many changes a second come at the source. paired reports whether two looks tell it.
func (j *job) rate() (rate float64, paired bool) {
	for _, most := range []float64{drained, math.Inf(1)} {
		var of []look
		for _, l := range j.looks {
			if l.run != 0 && l.pending >= 0 && l.pending <= most {
				of = append(of, l)
			}
		}
		if len(of) == 0 {
			continue
		}
		first, last := of[0], of[len(of)-1]
		if took := last.at - first.at; took >= enough {
			return max(0, last.done-first.done+last.pending-first.pending) / took.Seconds(), true
		}
	}
	if n := len(j.looks); n > 0 && j.age >= time.Second {
		return max(0, j.looks[n-1].done) / (j.age + j.looks[n-1].at - j.looks[0].at).Seconds(), false
	}
	return 0, false
}

// enough is the least time between two looks that tell a rate.
const enough = 5 * time.Second

// speed estimates how many changes a second are copied; 0 if no look tells it. A run that has many changes left
// at two looks has copied all the time. One that has done what was pending may have been idle for a while, and
// so tells a bound; that is better than nothing. One that keeps up with what comes tells nothing.
func (j *job) speed() float64 {
	var busy, bound measure
	for i := 1; i < len(j.looks); i++ {
		a, b := j.looks[i-1], j.looks[i]
		done := b.done - a.done
		switch {
		case a.run == 0 || a.run != b.run || done <= 0:
		case b.last || b.pending >= done/10 && (a.pending < 0 || a.pending >= done/10):
			busy.add(done, b.at-a.at)
		case a.pending >= done/2:
			bound.add(done, b.at-a.at)
		}
	}
	if busy.took > 0 {
		return busy.rate()
	}
	return bound.rate()
}

// measure sums up what was done in a time.
type measure struct {
	done float64
	took time.Duration
}

func (m *measure) add(done float64, took time.Duration) { m.done, m.took = m.done+done, m.took+took }

func (m *measure) rate() float64 {
	if m.took <= 0 {
		return 0
	}
	return m.done / m.took.Seconds()
}

// backlog returns what the job has to copy at its first look; negative if no look tells it.
func (j *job) backlog() float64 {
	if j.size > 0 {
		return j.size
	}
	for _, l := range j.looks {
		if l.pending >= 0 {
			return max(0, l.pending+l.done-j.looks[0].done)
		}
	}
	return -1
}

func (j *job) startup() time.Duration {
	if len(j.startups) == 0 {
		return unknownStartup
	}
	return median(j.startups)
}

func (j *job) mtbf() time.Duration {
	if j.crashes == 0 {
		return 0
	}
	return max(time.Second, j.ran/time.Duration(j.crashes))
}

func median[T float64 | time.Duration](list []T) T {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}

// capture makes a workload of what was seen.
func (o *observed) capture(keepNames bool) (*Capture, error) {
	slices.SortStableFunc(o.jobs, func(a, b *job) int { return int(a.submit - b.submit) })
	b := builder{observed: o, names: names{keep: keepNames, known: map[string]string{}}, accounts: map[string]int{},
		servers: map[string]int{}}
	b.typical()
	for i, j := range o.jobs {
		if err := b.add(i, j); err != nil {
			return nil, err
		}
	}
	b.estimates()
	c := &Capture{Workload: &b.workload, Settings: b.replicator(), Notes: o.notes}
	c.Settings = append(c.Settings, b.shareSettings()...)
	c.Notes = o.notes
	if err := c.Workload.Check(); err != nil {
		return nil, fmt.Errorf("what was captured is no workload: %w", err)
	}
	return c, nil
}

type builder struct {
	*observed
	workload workload.Workload
	names    names
	accounts map[string]int // places by name
	servers  map[string]int

	speed, size               float64 // of jobs that tell none
	aged, speedless, sizeless int     // jobs whose numbers are such
}

// typical finds the values that jobs get which tell none of their own.
func (b *builder) typical() {
	var speeds []float64
	sizes := slices.Clone(b.sizes)
	for _, j := range b.jobs {
		if s := j.speed(); s > 0 {
			speeds = append(speeds, s)
		}
		if s := j.backlog(); !j.continuous && s > 0 {
			sizes = append(sizes, s)
		}
	}
	b.speed, b.size = unknownSpeed, unknownSize
	if len(speeds) > 0 {
		b.speed = median(speeds)
	}
	if len(sizes) > 0 {
		b.size = median(sizes)
	}
}

func (b *builder) add(i int, j *job) error {
	account, err := b.account(j.account)
	if err != nil {
		return fmt.Errorf("job %s: %w", j.name, err)
	}
	w := workload.Job{
		ID: j.name, Account: account, Server: place(b.servers, j.endpoint), Submit: j.submit.Round(time.Millisecond),
		Remove: j.remove.Round(time.Millisecond), Continuous: j.continuous,
		Startup: j.startup().Round(time.Millisecond),
		Backlog: j.backlog(), Speed: j.speed(), MTBF: j.mtbf().Round(time.Millisecond),
	}
	if j.weight != schedule.DefaultWeight && j.weight >= schedule.MinWeight && j.weight <= schedule.MaxWeight {
		w.Weight = j.weight
	}
	if !b.names.keep {
		w.ID = "j" + strconv.Itoa(i+1)
	}
	if w.Remove > 0 && w.Remove <= w.Submit {
		w.Remove = w.Submit + time.Millisecond
	}
	if w.Speed == 0 {
		w.Speed = b.speed
		b.speedless++
	}
	if j.continuous {
		rate, paired := j.rate()
		if w.Rate = rate; !paired {
			b.aged++
		}
	}
	if w.Backlog < 0 {
		w.Backlog = 0
		if !j.continuous {
			w.Backlog = b.size
			b.sizeless++
		}
	}
	w.Backlog, w.Speed, w.Rate = short(w.Backlog), max(short(w.Speed), 1e-6), short(w.Rate)
	b.workload.Jobs = append(b.workload.Jobs, w)
	return nil
}

// short keeps six digits: more would pretend that estimates are exact.
func short(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	return x
}

// place returns the place of a name, the next free one for a new name.
func place(places map[string]int, name string) int {
	i, known := places[name]
	if !known {
		i = len(places)
		places[name] = i
	}
	return i
}

func (b *builder) account(name string) (int, error) {
	if !jobstore.IsAccount(name) {
		return 0, fmt.Errorf("its database %q is no replicator database", name)
	}
	i := place(b.accounts, name)
	if i == len(b.workload.Accounts) {
		shares, err := strconv.ParseInt(b.shares[name], 10, 64)
		if err != nil || shares < schedule.MinShares || shares > schedule.MaxShares {
			shares = schedule.DefaultShares
		}
		b.workload.Accounts = append(b.workload.Accounts, workload.Account{Name: b.names.of(name), Shares: shares})
	}
	return i, nil
}

// estimates notes which numbers are not what the service told.
func (b *builder) estimates() {
	n := len(b.jobs)
	if b.aged > 0 {
		b.note("rates of %d of %d jobs are estimated by all that they ever copied and their age", b.aged, n)
	}
	if b.speedless > 0 {
		b.note("speeds of %d of %d jobs are not known, and taken to be %.4g changes a second", b.speedless, n,
			b.speed)
	}
	if b.sizeless > 0 {
		b.note("sizes of %d one-shots are not known, and taken to be %.4g changes", b.sizeless, b.size)
	}
	startless := 0
	for _, j := range b.jobs {
		if len(j.startups) == 0 {
			startless++
		}
	}
	if startless > 0 {
		b.note("start-up times of %d of %d jobs are not known, and taken to be %s", startless, n, unknownStartup)
	}
}

// ofThisMachine are settings that name files of the machine of a service, or hosts, or have a password.
var ofThisMachine = []string{"ssl_trusted_certificates_file", "cert_file", "key_file", "password",
	"endpoint_allow", "endpoint_deny", "connect_to"}

// replicator returns the settings of [replicator] that couchrelay has.
func (b *builder) replicator() []Setting {
	var list []Setting
	for _, key := range config.Replicator {
		value, is := b.settings[key.Name]
		_, twice := b.settings[config.SecondNames[key.Name]] // a change of the first would have no effect
		if !is || twice || slices.Contains(ofThisMachine, key.Name) {
			continue
		}
		scratch := config.Default()
		if err := scratch.Set(key.Name, value); err != nil {
			b.note("left out: %v", err)
			continue
		}
		list = append(list, Setting{"replicator", key.Name, value})
	}
	return list
}

// shareSettings returns [replicator.shares], under the names that accounts have in the workload.
func (b *builder) shareSettings() []Setting {
	scratch := config.Default()
	for name, value := range b.shares {
		if err := scratch.SetShares(name, value); err != nil {
			b.note("left out: shares %s of an account: not a number from %d to %d, or not the name of one",
				value, schedule.MinShares, schedule.MaxShares)
		}
	}
	var list []Setting
	for _, row := range scratch.Shares() {
		if row.Value != "" {
			list = append(list, Setting{row.Section, b.names.of(row.Key), row.Value})
		}
	}
	return list
}

// names gives accounts other names, unless they are kept. Those that every service has stay.
type names struct {
	keep  bool
	known map[string]string
}

func (n *names) of(account string) string {
	if n.keep || account == "_replicator" || account == "user:" {
		return account
	}
	name, known := n.known[account]
	if !known {
		name = fmt.Sprintf("a%d/_replicator", len(n.known)+1)
		if strings.HasPrefix(account, "user:") {
			name = fmt.Sprintf("user:a%d", len(n.known)+1)
		}
		n.known[account] = name
	}
	return name
}

// hostOf returns host and port of an endpoint.
func hostOf(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}
