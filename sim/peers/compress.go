package peers

import "couchrelay/core/peer"

// Gzip is what a server makes of compressed requests.
type Gzip uint8

// Ways to deal with compressed requests.
const (
	Unpacks     Gzip = iota // reads what is inside
	NoGzip                  // 415: knows no compression
	GzipAsJSON              // 400: reads the compressed bytes
	GzipBreaks              // a proxy in front of the server breaks the connection
	GzipTooMuch             // 503: runs out of memory
)

// refuseGzip is the answer to a compressed request of a server that does not take it; nil if it does.
func (t Traits) refuseGzip(op peer.WriteDocs) *peer.Failure {
	if !op.Gzip {
		return nil
	}
	switch t.Gzip {
	case NoGzip:
		return answer(415, "bad_content_type", "gzip is not a supported content encoding.")
	case GzipAsJSON:
		return answer(400, "bad_request", "invalid UTF-8 JSON")
	case GzipBreaks:
		return &peer.Failure{Kind: peer.Broken}
	case GzipTooMuch:
		return answer(503, "service_unavailable", "out of memory")
	}
	return nil
}
