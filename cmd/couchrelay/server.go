package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web/door"
	"couchrelay/adapters/web/front"
)

// newServer returns a server for a handler, with bounds on the time and memory that a slow client can take. It speaks
// HTTP/1 only, as CouchDB does.
func newServer(h http.Handler, l config.Limits, logger *slog.Logger) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: reportPanics(h, logger), ReadHeaderTimeout: l.HeaderTime, IdleTimeout: l.IdleTime,
		MaxHeaderBytes: l.HeaderBytes, Protocols: protocols,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// newEntry returns the handler of all requests: the service, or a front that asks it about replications alone.
func newEntry(couchDB string, own *service) (http.Handler, error) {
	cors := func() config.CORS {
		c := inForce(own)
		return c.Pages()
	}
	bounded := func(h http.Handler) http.Handler {
		return door.Bounded(limits(own), door.BehindProxies(limits(own), h))
	}
	if couchDB == "" {
		return door.CORS(cors, bounded(own)), nil
	}
	couch, err := front.ParseURL(couchDB)
	if err != nil {
		return nil, fmt.Errorf("[front] couchdb: %w", err)
	}
	both := front.New(front.Options{
		CouchDB: couch, Service: door.CORS(cors, own), Node: own.NodeName, Logger: own.logger,
		TLS:   func() (*tls.Config, error) { return own.outside.trust.Config("") },
		Files: own.outside.files,
	})
	return bounded(both), nil
}

// reportPanics logs the panics of a handler as errors and cuts the connection. net/http alone would log them
// among the mistakes of clients, at the debug level. A handler that panics with http.ErrAbortHandler asks for
// the cut itself, which is not logged.
func reportPanics(h http.Handler, logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause != http.ErrAbortHandler {
				logger.Error("request_panicked", "method", r.Method, "path", r.URL.Path, "panic",
					cause, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		h.ServeHTTP(w, r)
	})
}
