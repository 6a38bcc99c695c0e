package relay

import (
	"net/url"
	"strings"
	"testing"
)

// TestLogOfOrders: what users change is logged once, with the user's reason.
func TestLogOfOrders(t *testing.T) {
	var log memory
	s := newService(t, func(o *Options) { o.Logger = log.logger() })
	id := makeJob(s, "r", oneShot)
	for range 2 {
		show(s, "POST /_scheduler/jobs/"+url.PathEscape(id)+`/pause {"reason":"disks"}`)
		show(s, `POST /_scheduler/holds {"server":"h","reason":"why"}`)
	}
	for range 2 {
		show(s, "DELETE /_scheduler/holds/server:h")
	}
	want := "level=INFO msg=ordered order=pause job=" + id + " user=\"\" reason=disks\n" +
		"level=INFO msg=hold_made hold=server:h user=\"\" reason=why\n" +
		"level=INFO msg=hold_lifted hold=server:h user=\"\"\n"
	if got := log.take(); !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 3 {
		t.Errorf("logged\n%swant\n%s", got, want)
	}
}
