package spec

import (
	"strings"
	"testing"
)

// TestCompression: an endpoint says whether its bodies are compressed, else the configuration does.
func TestCompression(t *testing.T) {
	for _, c := range []struct {
		configured, member string
		want               Compression
		failure            string
	}{
		{"", "", CompressAuto, ""},
		{"auto", "", CompressAuto, ""},
		{"on", "", CompressOn, ""},
		{"off", `,"compression":"on"`, CompressOn, ""},
		{"on", `,"compression":"auto"`, CompressAuto, ""},
		{"on", `,"compression":"off"`, CompressOff, ""},
		{"on", `,"compression":"gzip"`, "",
			"`target.compression` must be \"auto\", \"on\" or \"off\", and is \"gzip\""},
		{"on", `,"compression":""`, "", "and is \"\""},
		{"on", `,"compression":true`, "", "and is true"},
		{"on", `,"compression":null`, "", "and is null"},
	} {
		config := DefaultConfig()
		config.Compression = c.configured
		r, err := ParseRequest([]byte(`{"source":"http://s/a","target":{"url":"http://t/b"`+c.member+`}}`), config)
		if c.failure != "" {
			if err == nil || !strings.Contains(err.Error(), c.failure) {
				t.Errorf("%s: %v", c.member, err)
			}
			continue
		}
		if err != nil || r.Target.Compression != c.want || len(r.Unknown) > 0 {
			t.Errorf("%q %s: %+v, %v", c.configured, c.member, r, err)
			continue
		}
		raw, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Decode(raw); err != nil || back.Target.Compression != c.want {
			t.Errorf("%s comes back as %+v, %v", raw, back, err)
		}
	}
}
