package model

import (
	"fmt"
	"strings"
)

// address reports whether there is a URL, with a password that is not hidden.
func address(v any) bool {
	text, is := v.(string)
	return is && strings.HasPrefix(text, "http") && !strings.Contains(text, ":*****@")
}

// endpoint reports whether a value is a URL, or an object with one whose other members are as they have to be.
func endpoint(v any) bool {
	e, is := v.(map[string]any)
	if !is {
		return address(v)
	}
	auth, _ := e["auth"].(map[string]any)
	for _, part := range []any{e["headers"], e["auth"], auth["basic"]} {
		if part != nil && !object(part) {
			return false
		}
	}
	return address(e["url"])
}

// endpointOf is what an endpoint means, however it is worded: its URL, who asks there, and with which headers.
func endpointOf(v any) any {
	e, is := v.(map[string]any)
	if !is {
		e = map[string]any{"url": v}
	}
	text, _ := e["url"].(string)
	scheme, rest, _ := strings.Cut(text, "://")
	userinfo, place, signed := strings.Cut(rest, "@")
	if !signed {
		userinfo, place = "", rest
	}
	auth, _ := e["auth"].(map[string]any)
	if basic, is := auth["basic"].(map[string]any); is {
		userinfo = fmt.Sprint(basic["username"], ":", basic["password"])
	}
	return fmt.Sprintf("%s://%s by %s, headers %v", scheme, place, userinfo, e["headers"])
}
