package main

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// newServer serves a handler with bounds on what a slow client may hold.
func newServer(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: reportPanics(h, logger), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// reportPanics logs the panics of a handler, which net/http would tell with the mistakes of clients, and cuts the
// connection. http.ErrAbortHandler is how handlers ask for that.
func reportPanics(h http.Handler, logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause != http.ErrAbortHandler {
				logger.Error("request_panicked", "method", r.Method, "path", r.URL.Path, "panic", cause, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		h.ServeHTTP(w, r)
	})
}
