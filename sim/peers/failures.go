package peers

import (
	"time"

	"couchrelay/core/peer"
)

// unsent is the failure of a request that does not reach the server.
func unsent(f Fault) *peer.Failure {
	switch f {
	case Refused:
		return &peer.Failure{Kind: peer.Unreachable}
	case NoSuchHost:
		return &peer.Failure{Kind: peer.Unresolvable}
	case BadTLS:
		return &peer.Failure{Kind: peer.Insecure}
	case ResetBefore:
		return &peer.Failure{Kind: peer.Broken}
	}
	return nil
}

// early is the answer of a server that does not carry the request out.
func early(f Fault) *peer.Failure {
	switch f {
	case Unauthorized:
		return answer(401, "unauthorized", "Name or password is incorrect.")
	case Forbidden:
		return answer(403, "forbidden", "You are not allowed to access this db.")
	case Timeout408:
		return answer(408, "", "")
	case TooLarge:
		return answer(413, "too_large", "the request entity is too large")
	case Teapot:
		return answer(418, "", "")
	case Throttled:
		return answer(429, "too_many_requests", "")
	case RetryAfter:
		f := answer(429, "too_many_requests", "")
		f.RetryAfter = 7 * time.Second
		return f
	case ServerError:
		return answer(500, "unknown_error", "undefined")
	case Unavailable:
		return answer(503, "service_unavailable", "")
	case Maintenance:
		f := answer(503, "service_unavailable", "")
		f.RetryAfter = 10 * time.Minute
		return f
	case HTML:
		return &peer.Failure{Kind: peer.Malformed, Reason: "HTML"}
	}
	return nil
}

// late is the failure of a request that was carried out.
func late(f Fault) *peer.Failure {
	switch f {
	case ResetAfter, Truncated:
		return &peer.Failure{Kind: peer.Broken}
	case Stalls:
		return &peer.Failure{Kind: peer.TimedOut}
	case ErrorAfter, WritesPart:
		return answer(500, "unknown_error", "timeout")
	}
	return nil
}

// silence is how long an answer is silent in its middle.
func silence(f Fault) time.Duration {
	switch f {
	case Stalls, FeedStalls:
		return patience
	case Pauses, FeedPauses:
		return patience - time.Second
	}
	return 0
}

// partial is what arrived of an answer that broke off.
func partial(f Fault, reply peer.Reply) peer.Result {
	if f != Truncated && f != Stalls || reply.Failure != nil {
		return nil
	}
	switch r := reply.Result.(type) {
	case peer.Changes:
		return peer.Changes{Rows: r.Rows[:len(r.Rows)/2], Pending: -1}
	case peer.Copied:
		return r
	}
	return nil
}
