package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"couchrelay/core/jobstore"
	"couchrelay/core/schedule"
)

// Check returns an error that names the first field that breaks a rule of its type.
func (w *Workload) Check() error {
	if len(w.Jobs) > MaxJobs {
		return fmt.Errorf("there are %d jobs; %d are accepted at most", len(w.Jobs), MaxJobs)
	}
	if len(w.Accounts) > maxAccounts {
		return fmt.Errorf("there are %d accounts; %d are accepted at most", len(w.Accounts), maxAccounts)
	}
	names := make(map[string]bool, len(w.Accounts))
	for i, a := range w.Accounts {
		if err := a.check(); err != nil {
			return fmt.Errorf("account %d (%q): %w", i, a.Name, err)
		}
		if names[a.Name] {
			return fmt.Errorf("account %d (%q): another account has this name", i, a.Name)
		}
		names[a.Name] = true
	}
	if err := w.checkJobs(); err != nil {
		return err
	}
	for i, c := range w.Changes {
		if err := c.check(len(w.Accounts)); err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
		if i > 0 && c.At < w.Changes[i-1].At {
			return fmt.Errorf("change %d: comes at %s, before the one ahead of it (%s)", i, c.At, w.Changes[i-1].At)
		}
	}
	for i, o := range w.Outages {
		if err := o.check(); err != nil {
			return fmt.Errorf("outage %d: %w", i, err)
		}
	}
	return nil
}

// checked returns the workload if it is right.
func (w *Workload) checked() (*Workload, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Workload) checkJobs() error {
	ids := make(map[string]bool, len(w.Jobs))
	last := time.Duration(0)
	for i := range w.Jobs {
		j := &w.Jobs[i]
		if err := j.check(len(w.Accounts)); err != nil {
			return fmt.Errorf("job %d (%q): %w", i, j.ID, err)
		}
		if ids[j.ID] {
			return fmt.Errorf("job %d (%q): another job has this id", i, j.ID)
		}
		if j.Submit < last {
			return fmt.Errorf("job %d (%q): is submitted at %s, before the one ahead of it (%s)", i, j.ID, j.Submit,
				last)
		}
		ids[j.ID], last = true, j.Submit
	}
	return nil
}

func (a *Account) check() error {
	if !jobstore.IsAccount(a.Name) {
		return errors.New("the name must be that of a replicator database (_replicator, or one that ends in " +
			"/_replicator), or user:NAME")
	}
	if err := printable(a.Name); err != nil {
		return fmt.Errorf("the name %w", err)
	}
	return checkShares(a.Shares)
}

func checkShares(n int64) error {
	if n < schedule.MinShares || n > schedule.MaxShares {
		return fmt.Errorf("shares are %d, and must be from %d to %d", n, schedule.MinShares, schedule.MaxShares)
	}
	return nil
}

// maxText bounds names and ids, in bytes.
const maxText = 1000

// printable returns an error for a text that a line of a file cannot have.
func printable(s string) error {
	control := func(r rune) bool { return unicode.IsControl(r) }
	if !utf8.ValidString(s) || strings.ContainsFunc(s, control) || len(s) > maxText {
		return fmt.Errorf("must be UTF-8 without control characters, of %d bytes at most", maxText)
	}
	return nil
}

func checkAccount(account, accounts int) error {
	if account < 0 || account >= accounts {
		return fmt.Errorf("account is %d, and there are %d, from 0", account, accounts)
	}
	return nil
}

// within returns an error for a time that is less than least, or endless.
func within(name string, d, least time.Duration) error {
	if d < least || d > maxTime {
		return fmt.Errorf("%s is %s, and must be from %s to 10 years", name, d, least)
	}
	return nil
}

func checkServer(n int) error {
	if n < 0 || n >= maxServers {
		return fmt.Errorf("server is %d, and must be from 0 to %d", n, maxServers-1)
	}
	return nil
}

// amounts returns an error unless x is a number from 0.
func amounts(name string, x float64) error {
	if !(x >= 0) || math.IsInf(x, 1) || math.Signbit(x) {
		return fmt.Errorf("%s is %v, and must be a number from 0", name, x)
	}
	return nil
}

func (j *Job) check(accounts int) error {
	if j.ID == "" {
		return errors.New("id is empty")
	}
	if err := printable(j.ID); err != nil {
		return fmt.Errorf("the id %w", err)
	}
	if err := cmp.Or(checkAccount(j.Account, accounts), checkServer(j.Server),
		within("submit", j.Submit, 0), within("startup", j.Startup, 0), within("mtbf", j.MTBF, 0),
		amounts("backlog", j.Backlog), amounts("speed", j.Speed), amounts("rate", j.Rate)); err != nil {
		return err
	}
	switch {
	case j.Remove != 0 && (j.Remove <= j.Submit || j.Remove > maxTime):
		return fmt.Errorf("remove is %s, and must be after submit (%s), or 0 for never", j.Remove, j.Submit)
	case j.Weight != 0 && (j.Weight < schedule.MinWeight || j.Weight > schedule.MaxWeight):
		return fmt.Errorf("weight is %d, and must be from %d to %d, or 0 for %d", j.Weight, schedule.MinWeight,
			schedule.MaxWeight, schedule.DefaultWeight)
	case j.Speed == 0:
		return errors.New("speed is 0, and must be above 0")
	case j.Every < 0 || j.Every > maxTime:
		return fmt.Errorf("every is %s, and must be from 0 to 10 years", j.Every)
	case j.Every == 0 && (j.Burst != 0 || j.Phase != 0):
		return fmt.Errorf("burst is %s and phase %s, and must be 0 as every is", j.Burst, j.Phase)
	case j.Every > 0 && (j.Burst <= 0 || j.Burst > j.Every):
		return fmt.Errorf("burst is %s, and must be above 0 and no more than every (%s)", j.Burst, j.Every)
	case j.Every > 0 && (j.Phase < 0 || j.Phase >= j.Every):
		return fmt.Errorf("phase is %s, and must be from 0 and less than every (%s)", j.Phase, j.Every)
	}
	return nil
}

func (c *Change) check(accounts int) error {
	return cmp.Or(within("at", c.At, 0), checkAccount(c.Account, accounts), checkShares(c.Shares))
}

func (o *Outage) check() error {
	if err := cmp.Or(checkServer(o.Server), within("from", o.From, 0)); err != nil {
		return err
	}
	if o.To <= o.From || o.To > maxTime {
		return fmt.Errorf("to is %s, and must be after from (%s)", o.To, o.From)
	}
	return nil
}
