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

// mayKnow returns a document that was read, as it is, or why the client may not know that there is one.
func (s *server) mayKnow(q *request, d *docs.Document, err error) (*docs.Document, error) {
	if err == nil {
		_, err = s.view(q, d)
	}
	return d, err
}

// viewAll hides what the client may not see among revisions that were opened: it is as if there were none.
func (s *server) viewAll(q *request, wanted []docs.Wanted, answers [][]docs.Opened) {
	for i, answer := range answers {
		for j := range answer {
			o := &answer[j]
			if o.Doc == nil {
				continue
			}
			if o.Doc = s.viewed(q, o.Doc); o.Doc == nil {
				answers[i] = nil
				for _, rev := range wanted[i].Revs {
					answers[i] = append(answers[i], docs.Opened{Missing: rev})
				}
				break
			}
		}
	}
}
