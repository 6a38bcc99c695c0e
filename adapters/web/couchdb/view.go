package couchdb

import "couchrelay/core/docs"

// view returns what the client of a request may see of a document.
func (s *server) view(q *request, d *docs.Document) (*docs.Document, error) {
	if s.View == nil {
		return d, nil
	}
	return s.View(q.Request, d)
}

// viewed is view for lists: nil stands for a document that the client may not see.
func (s *server) viewed(q *request, d *docs.Document) *docs.Document {
	if d == nil {
		return nil
	}
	seen, err := s.view(q, d)
	if err != nil {
		return nil
	}
	return seen
}

// viewAll hides what the client may not see among revisions that were opened.
func (s *server) viewAll(q *request, answers [][]docs.Opened) {
	for _, answer := range answers {
		for i := range answer {
			if o := &answer[i]; o.Doc != nil {
				rev := o.Doc.Rev
				if o.Doc = s.viewed(q, o.Doc); o.Doc == nil {
					o.Missing = rev
				}
			}
		}
	}
}
