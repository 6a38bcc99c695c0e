package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/config"
	"couchrelay/sim/decide"
	"couchrelay/sim/world"
)

// field is a word that sets a part of the world.
type field struct {
	name string
	set  func(c *world.Config, value string) error
	get  func(c *world.Config) string
}

// fields are all such words, in the order in which files have them.
var fields = []field{
	count("nodes", func(c *world.Config) *int { return &c.Nodes }, 1, 100),
	count("frontend-only-nodes", func(c *world.Config) *int { return &c.FrontendOnly }, 0, 100),
	count("replication-only-nodes", func(c *world.Config) *int { return &c.ReplicationOnly }, 0, 100),
	count("namesakes", func(c *world.Config) *int { return &c.Namesakes }, 0, 100),
	count("older", func(c *world.Config) *int { return &c.Older }, 0, 100),
	count("node-batch", func(c *world.Config) *int { return &c.NodeBatch }, 0, 10_000),
	count("servers", func(c *world.Config) *int { return &c.Servers }, 1, 1000),
	count("databases", func(c *world.Config) *int { return &c.Databases }, 1, 1000),
	count("replicators", func(c *world.Config) *int { return &c.Tenants }, 1, 1000),
	count("followed", func(c *world.Config) *int { return &c.Followed }, 0, 8),
	count("follow-page", func(c *world.Config) *int { return &c.FollowPage }, 0, 10_000),
	share("handed-over", func(c *world.Config) *int { return &c.HandedOver }),
	count("jobs", func(c *world.Config) *int { return &c.Jobs }, 0, 1_000_000),
	count("docs", func(c *world.Config) *int { return &c.Docs }, 0, 1_000_000),
	span("duration", func(c *world.Config) *time.Duration { return &c.Duration }, 0),
	span("settle", func(c *world.Config) *time.Duration { return &c.Settle }, time.Minute),
	span("think", func(c *world.Config) *time.Duration { return &c.Think }, time.Millisecond),
	share("continuous", func(c *world.Config) *int { return &c.Continuous }),
	share("filtered", func(c *world.Config) *int { return &c.Filtered }),
	share("attached", func(c *world.Config) *int { return &c.Attached }),
	share("denied", func(c *world.Config) *int { return &c.Denied }),
	share("unreadable", func(c *world.Config) *int { return &c.Unreadable }),
	share("retry-refused", func(c *world.Config) *int { return &c.RetryRefused }),
	share("fail-refused", func(c *world.Config) *int { return &c.FailRefused }),
	count("max-refused", func(c *world.Config) *int { return &c.MaxRefused }, 0, 10_000),
	share("long-urls", func(c *world.Config) *int { return &c.LongURLs }),
	share("numeric-servers", func(c *world.Config) *int { return &c.NumericServers }),
	share("objects", func(c *world.Config) *int { return &c.Objects }),
	share("bare-servers", func(c *world.Config) *int { return &c.BareServers }),
	span("store-latency", func(c *world.Config) *time.Duration { return &c.StoreLatency }, 0),
	share("slow-reads", func(c *world.Config) *int { return &c.SlowReads }),
	span("net-latency", func(c *world.Config) *time.Duration { return &c.NetLatency }, 0),
	span("poll-interval", func(c *world.Config) *time.Duration { return &c.Settings.PollInterval }, time.Millisecond),
	count("memory", func(c *world.Config) *int { return &c.Memory }, 1, 1<<30),
	count("sample", func(c *world.Config) *int { return &c.Sample }, 0, 1_000_000),
}

func count(name string, of func(*world.Config) *int, least, most int) field {
	return field{name, func(c *world.Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		*of(c) = n
		return nil
	}, func(c *world.Config) string { return strconv.Itoa(*of(c)) }}
}

func span(name string, of func(*world.Config) *time.Duration, least time.Duration) field {
	return field{name, func(c *world.Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < least {
			return fmt.Errorf("must be a time such as 90s, 1h30m or 250ms, at least %s", config.Short(least))
		}
		*of(c) = d
		return nil
	}, func(c *world.Config) string { return config.Short(*of(c)) }}
}

// share is in whole percent.
func share(name string, of func(*world.Config) *int) field {
	return field{name, func(c *world.Config, v string) error {
		n, err := strconv.Atoi(strings.TrimSuffix(v, "%"))
		if err != nil || !strings.HasSuffix(v, "%") || n < 0 || n > 100 {
			return errors.New("must be a whole number of percent from 0% to 100%")
		}
		*of(c) = n
		return nil
	}, func(c *world.Config) string { return strconv.Itoa(*of(c)) + "%" }}
}

// perPercent is how much of decide.Scale a percent is; four places after the point tell every rate.
const perPercent = decide.Scale / 100

func parsePercent(v string) (int, error) {
	refused := errors.New("must be a share from 0% to 100%, such as 0.5%, with up to four places")
	number, isPercent := strings.CutSuffix(v, "%")
	whole, part, _ := strings.Cut(number, ".")
	if !isPercent || len(part) > 4 || whole == "" {
		return 0, refused
	}
	n, err1 := strconv.ParseUint(whole, 10, 16)
	m, err2 := strconv.ParseUint(part+strings.Repeat("0", 4-len(part)), 10, 16)
	rate := int(n)*perPercent + int(m)
	if err1 != nil || err2 != nil || rate > decide.Scale {
		return 0, refused
	}
	return rate, nil
}

func formatPercent(rate int) string {
	s := fmt.Sprintf("%d.%04d", rate/perPercent, rate%perPercent)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".") + "%"
}
