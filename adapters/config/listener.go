package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"couchrelay/core/config"
)

// networks takes addresses and networks, with commas between.
func networks(field func(*Config) *[]netip.Prefix) config.Kind[Config] {
	const takes = "addresses and networks such as 10.0.0.0/8, with commas between"
	return config.Kind[Config]{
		Takes: takes,
		Get: func(c *Config) string {
			var list []string
			for _, p := range *field(c) {
				list = append(list, p.String())
			}
			return strings.Join(list, ", ")
		},
		Set: func(c *Config, v string) error {
			var list []netip.Prefix
			for text := range strings.SplitSeq(v, ",") {
				text = strings.TrimSpace(text)
				p, err := netip.ParsePrefix(text)
				if ip, bad := netip.ParseAddr(text); bad == nil && ip.Zone() == "" {
					p, err = ip.Prefix(ip.BitLen())
				}
				if err != nil {
					return errors.New("must be " + takes)
				}
				list = append(list, p.Masked())
			}
			*field(c) = list
			return nil
		},
	}
}

// address takes where a port listens. CouchDB's any is all addresses, of IPv6 as well.
func address(field func(*Config) *string) config.Kind[Config] {
	text := config.Text(field, "an IP address, a host name, or any for all addresses")
	set := text.Set
	text.Set = func(c *Config, v string) error {
		switch _, err := netip.ParseAddr(v); {
		case v == "any":
			v = "0.0.0.0"
		case v != "" && err != nil && !isHostName(v):
			return errors.New("must be " + text.Takes + ", without a port")
		}
		return set(c, v)
	}
	return text
}

// isHostName reports whether a text can be the name of a machine: no name ends in a number, as addresses do.
func isHostName(text string) bool {
	labels := strings.Split(strings.TrimSuffix(text, "."), ".")
	for _, label := range labels {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_", unicode.ToLower(r))
		}) {
			return false
		}
	}
	return strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

// checkPorts returns an error for two ports that cannot both be listened on.
func (c *Config) checkPorts() error {
	type listener struct {
		section, address string
		port             int
	}
	all := []listener{{"chttpd", c.BindAddress, c.Port}}
	if c.SSL.Enable {
		all = append(all, listener{"ssl", c.SecureAddress(), c.SSL.Port})
	}
	if c.Beside.Scrapes.Enable {
		all = append(all, listener{"prometheus", c.Beside.Scrapes.BindAddress, c.Beside.Scrapes.Port})
	}
	for i, one := range all {
		for _, other := range all[:i] {
			same := one.address == other.address || isAny(one.address) || isAny(other.address)
			if one.port == other.port && one.port != 0 && same {
				return fmt.Errorf("[%s] port = %d: is that of [%s]", one.section, one.port, other.section)
			}
		}
	}
	return nil
}

// isAny reports whether an address stands for all.
func isAny(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.IsUnspecified()
}
