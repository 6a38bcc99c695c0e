package couchdb

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
	if q.Query.Get("open_revs") != "all" {
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
	answers, err := carry(q, sizeOfOpened, func(_ kv.Tx, db *docs.Database) ([][]docs.Opened, error) {
		return db.OpenRevs([]docs.Wanted{wanted}, q.flag("latest"))
	})
	if err != nil {
		return err
	}
	q.viewAll(q, []docs.Wanted{wanted}, answers)
	if len(answers[0]) == 0 && wanted.Revs == nil {
		return docs.ErrMissing
	}
	if q.accepts("multipart/mixed") {
		return q.sendMixed(answers[0], s)
	}
	return q.sendOpened(answers[0], s)
}

func (q *request) sendOpened(answers []docs.Opened, s shown) error {
	q.Begin(http.StatusOK, "application/json")
	separator := "["
	for _, o := range answers {
		if _, err := io.WriteString(q.W, separator); err != nil {
			return err
		}
		if separator = ","; o.Doc == nil {
			if _, err := q.W.Write(encode(lacking{o.Missing.String()})); err != nil {
				return err
			}
		} else if err := q.writeOK(o.Doc, s); err != nil {
			return err
		}
	}
	if separator == "[" {
		_, _ = io.WriteString(q.W, "[")
	}
	_, err := io.WriteString(q.W, "]\n")
	return err
}

// lacking tells that the database does not have a revision.
type lacking struct {
	Rev string `json:"missing"`
}

// writeOK writes {"ok": document}.
func (q *request) writeOK(d *docs.Document, s shown) error {
	s.mark(d, docs.Inline)
	if _, err := io.WriteString(q.W, `{"ok":`); err != nil {
		return err
	}
	if err := q.writeDocument(q.W, d, s); err != nil {
		return err
	}
	_, err := io.WriteString(q.W, "}")
	return err
}

// sendMixed answers with a part for each revision; the bytes of attachments always come with them.
func (q *request) sendMixed(answers []docs.Opened, s shown) error {
	s.attachments = true
	boundary := hex.EncodeToString(random(16))
	q.Begin(http.StatusOK, `multipart/mixed; boundary="`+boundary+`"`)
	if _, err := io.WriteString(q.W, "--"+boundary); err != nil {
		return err
	}
	for _, o := range answers {
		if err := q.writeMixedPart(o, s); err != nil {
			return err
		}
		if _, err := io.WriteString(q.W, "\r\n--"+boundary); err != nil {
			return err
		}
	}
	_, err := io.WriteString(q.W, "--")
	return err
}

func (q *request) writeMixedPart(o docs.Opened, s shown) error {
	if o.Doc == nil {
		const header = "\r\nContent-Type: application/json; error=\"true\"\r\n\r\n"
		_, err := q.W.Write(append([]byte(header), encode(lacking{o.Missing.String()})...))
		return err
	}
	follow := s.mark(o.Doc, docs.Follows)
	r := q.related(o.Doc, s)
	if !follow {
		_, err := io.WriteString(q.W, "\r\nContent-Type: application/json\r\n\r\n"+string(r.json))
		return err
	}
	if _, err := io.WriteString(q.W, "\r\nContent-Type: "+r.contentType()+"\r\n\r\n"); err != nil {
		return err
	}
	return r.write(q.W)
}
