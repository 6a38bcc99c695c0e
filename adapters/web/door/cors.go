package door

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"couchrelay/adapters/config"
)

// CORS returns a handler that lets pages of other origins use h, as CouchDB does: requests that ask whether they may
// be sent are answered here, before anybody asks for a login, and all answers, errors too, say who may read them.
func CORS(settings func() config.CORS, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := settings()
		if !c.Enable {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		named := slices.Contains(c.Origins, origin)
		all := slices.Contains(c.Origins, "*") && (!c.Local || ofThisMachine(origin))
		if origin == "" || !named && !all {
			h.ServeHTTP(w, r)
			return
		}
		header := w.Header()
		header.Set("Access-Control-Allow-Origin", origin)
		if named && c.Credentials {
			header.Set("Access-Control-Allow-Credentials", "true")
		}
		if r.Method == http.MethodOptions && preflight(c, header, r) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		header.Set("Access-Control-Expose-Headers", exposed(c))
		h.ServeHTTP(w, r)
	})
}

// ofThisMachine reports whether an origin is one of pages that this machine itself serves.
func ofThisMachine(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// preflight reports whether a request asks for what is allowed, and says in the answer's header what is.
func preflight(c config.CORS, header http.Header, r *http.Request) bool {
	asked := r.Header.Get("Access-Control-Request-Method")
	if !slices.Contains(c.Methods, asked) { // also if nothing is asked
		return false
	}
	headers := strings.Join(r.Header.Values("Access-Control-Request-Headers"), ",")
	for name := range strings.SplitSeq(headers, ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" && !slices.Contains(c.Headers, name) {
			return false
		}
	}
	header.Set("Access-Control-Max-Age", strconv.Itoa(c.MaxAge))
	header.Set("Access-Control-Allow-Methods", strings.Join(c.Methods, ", "))
	header.Set("Access-Control-Allow-Headers", headers)
	return true
}

// exposed are the headers of answers that pages may read.
func exposed(c config.CORS) string {
	return strings.Join(append([]string{"content-type", "cache-control"}, c.Exposed...), ", ")
}
