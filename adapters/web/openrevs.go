package web

import (
	"encoding/hex"
	"io"
	"net/http"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
)

// openRevs answers with the leaves that open_revs names, as multipart/mixed if the client takes that,
// else as a JSON array.
func (q *request) openRevs() error {
	wanted := docs.Wanted{ID: q.id}
	if q.query.Get("open_revs") != "all" {
		revs, err := q.revs("open_revs")
		if err != nil {
			return err
		}
		wanted.Revs = revs
	}
	s, err := q.shown()
	if err != nil {
		return err
	}
	answers, err := do(q, func(_ kv.Tx, db *docs.Database) ([][]docs.Opened, error) {
		return db.OpenRevs([]docs.Wanted{wanted}, q.flag("latest"))
	})
	if err != nil {
		return err
	}
	if len(answers[0]) == 0 && wanted.Revs == nil {
		return docs.ErrMissing
	}
	if q.accepts("multipart/mixed") {
		return q.sendMixed(answers[0], s)
	}
	return q.sendOpened(answers[0], s)
}

func (q *request) sendOpened(answers []docs.Opened, s shown) error {
	q.begin(http.StatusOK, "application/json")
	separator := "["
	for _, o := range answers {
		if _, err := io.WriteString(q.w, separator); err != nil {
			return err
		}
		if separator = ","; o.Doc == nil {
			if _, err := q.w.Write(object("missing", o.Missing.String())); err != nil {
				return err
			}
		} else if err := q.writeOK(o.Doc, s); err != nil {
			return err
		}
	}
	if separator == "[" {
		_, _ = io.WriteString(q.w, "[")
	}
	_, err := io.WriteString(q.w, "]\n")
	return err
}

// writeOK writes {"ok": document}.
func (q *request) writeOK(d *docs.Document, s shown) error {
	s.mark(q.show(d), docs.Inline)
	if _, err := io.WriteString(q.w, `{"ok":`); err != nil {
		return err
	}
	if err := q.writeDocument(q.w, d, s); err != nil {
		return err
	}
	_, err := io.WriteString(q.w, "}")
	return err
}

// sendMixed answers with a part for each revision; the bytes of attachments always come with them.
func (q *request) sendMixed(answers []docs.Opened, s shown) error {
	s.attachments = true
	boundary := hex.EncodeToString(random(16))
	q.begin(http.StatusOK, `multipart/mixed; boundary="`+boundary+`"`)
	if _, err := io.WriteString(q.w, "--"+boundary); err != nil {
		return err
	}
	for _, o := range answers {
		if err := q.writeMixedPart(o, s); err != nil {
			return err
		}
		if _, err := io.WriteString(q.w, "\r\n--"+boundary); err != nil {
			return err
		}
	}
	_, err := io.WriteString(q.w, "--")
	return err
}

func (q *request) writeMixedPart(o docs.Opened, s shown) error {
	if o.Doc == nil {
		_, err := io.WriteString(q.w, "\r\nContent-Type: application/json; error=\"true\"\r\n\r\n"+string(object("missing", o.Missing.String())))
		return err
	}
	follow := s.mark(q.show(o.Doc), docs.Follows)
	r := q.related(o.Doc, s)
	if !follow {
		_, err := io.WriteString(q.w, "\r\nContent-Type: application/json\r\n\r\n"+string(r.json))
		return err
	}
	if _, err := io.WriteString(q.w, "\r\nContent-Type: "+r.contentType()+"\r\n\r\n"); err != nil {
		return err
	}
	return r.write(q.w)
}
