package door

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"couchrelay/adapters/config"
)

// BehindProxies returns a handler whose requests have the address of the client as RemoteAddr where a trusted proxy
// sent them. Each proxy adds the address from which it got a request to the end of X-Forwarded-For, so the last one
// that is no trusted proxy's is the client's, and what stands before it may be made up. X-Forwarded-Proto of such a
// proxy counts, too.
func BehindProxies(limits func() config.Limits, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxies := limits().Proxies
		isProxy := func(ip netip.Addr) bool {
			return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
		}
		if from, ok := remote(r.RemoteAddr); ok && isProxy(from) {
			hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
			for len(hops) > 0 && isProxy(from) {
				hop, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1]))
				if err != nil {
					break
				}
				from, hops = hop.Unmap().WithZone(""), hops[:len(hops)-1]
			}
			r2 := *r
			r2.RemoteAddr = netip.AddrPortFrom(from, 0).String()
			if r.TLS == nil && r.Header.Get("X-Forwarded-Proto") == "https" {
				r2.TLS = &tls.ConnectionState{} // so cookies and locations are for https
			}
			r = &r2
		}
		h.ServeHTTP(w, r)
	})
}

// remote is the IP address of a peer.
func remote(address string) (netip.Addr, bool) {
	p, err := netip.ParseAddrPort(address)
	return p.Addr().Unmap().WithZone(""), err == nil
}
