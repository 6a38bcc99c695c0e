package config

import (
	"errors"
	"net/netip"
	"strings"

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
