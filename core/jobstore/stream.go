package jobstore

import (
	"slices"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Position is a place in the order of jobs' ids: at the job with an id, or past it, in the direction of the list. The
// zero Position is where a list begins.
type Position struct {
	ID   string
	Past bool
}

// direction is the order of a list.
type direction struct{ descending bool }

// reaches reports whether an id is not before a position.
func (d direction) reaches(id string, p Position) bool {
	switch {
	case p.ID == "" || id == p.ID && !p.Past:
		return true
	case d.descending:
		return id < p.ID
	}
	return id > p.ID
}

// before reports whether a comes before b in a list.
func (d direction) before(a, b string) bool {
	if d.descending {
		return a > b
	}
	return a < b
}

// found is what a stream finds from a position on: the first job, or that there is none.
type found struct {
	id   string
	none bool
	// unsure says that the stream gave up the search at the id: no job before it matches, and that one may.
	unsure bool
}

// stream is a sequence of jobs in the order of a list. seek finds the first one that is not before a position;
// positions never go back. It reads a bounded number of rows.
type stream interface {
	seek(p Position) (found, error)
}

// rows is the stream of an index's rows, which end with jobs' ids. It reads more of them at once while they are
// used one after the other.
type rows struct {
	direction
	r      kv.Reader
	space  tuple.Subspace
	buffer []string
	used   int  // rows of the buffer that were found
	ended  bool // there are none behind the buffer
	chunk  int  // rows to read at once; first as many as the page may need
}

// Bounds of how many rows are read at once.
const (
	minChunk = 8
	maxChunk = 512
)

func (s *rows) seek(p Position) (found, error) {
	for i, id := range s.buffer {
		if s.reaches(id, p) {
			s.buffer = s.buffer[i:]
			s.used++
			return found{id: id}, nil
		}
	}
	if s.ended {
		return found{none: true}, nil
	}
	switch {
	case s.buffer == nil: // the first read
	case 2*s.used >= s.chunk:
		s.chunk = min(2*s.chunk, maxChunk)
	default:
		s.chunk = minChunk
	}
	return s.read(p)
}

func (s *rows) read(p Position) (found, error) {
	list, err := s.r.GetRange(s.from(s.space, p), kv.RangeOptions{Limit: max(s.chunk, minChunk), Reverse: s.descending})
	if err != nil {
		return found{}, err
	}
	s.buffer, s.used, s.chunk = make([]string, len(list)), 0, max(s.chunk, minChunk)
	for i, row := range list {
		if err := s.space.Scan(row.Key, &s.buffer[i]); err != nil {
			return found{}, err
		}
	}
	if s.ended = len(list) < s.chunk; len(list) == 0 {
		return found{none: true}, nil
	}
	return found{id: s.buffer[0]}, nil
}

// from is the rows of an index that are not before a position.
func (d direction) from(space tuple.Subspace, p Position) kv.Range {
	at := space.Range()
	switch {
	case p.ID == "":
	case d.descending:
		if at.End = space.Pack(p.ID); !p.Past {
			at.End = kv.KeyAfter(at.End)
		}
	default:
		if at.Begin = space.Pack(p.ID); p.Past {
			at.Begin = kv.KeyAfter(at.Begin)
		}
	}
	return at
}

// fixed is a stream of ids that are known.
type fixed struct {
	direction
	ids []string // in the order of the list
}

func (s *fixed) seek(p Position) (found, error) {
	i := slices.IndexFunc(s.ids, func(id string) bool { return s.reaches(id, p) })
	if i < 0 {
		return found{none: true}, nil
	}
	s.ids = s.ids[i:]
	return found{id: s.ids[0]}, nil
}

// union is the stream of the jobs that are in any of its parts.
type union struct {
	direction
	parts []stream
	heads []found // of the parts, once they were asked
}

func (s *union) seek(p Position) (first found, err error) {
	first = found{none: true}
	if s.heads == nil {
		s.heads = make([]found, len(s.parts))
	}
	for i := range s.parts {
		head := &s.heads[i]
		if !head.none && (head.id == "" || head.unsure || !s.reaches(head.id, p)) {
			if *head, err = s.parts[i].seek(p); err != nil {
				return found{}, err
			}
		}
		if head.none {
			continue
		}
		if first.none || s.before(head.id, first.id) || head.id == first.id && !head.unsure {
			first = *head
		}
	}
	return first, nil
}

// intersection is the stream of the jobs that are in all of its parts.
type intersection struct {
	parts []stream
}

// maxRounds bounds one search for a job that is in all parts of an intersection.
const maxRounds = 256

func (s *intersection) seek(p Position) (found, error) {
	f, err := s.parts[0].seek(p)
	agree := 1 // parts in a row that have the job
	for i := 1; agree < len(s.parts) && err == nil && !f.none && !f.unsure; i++ {
		if i == maxRounds {
			f.unsure = true
			break
		}
		var next found
		next, err = s.parts[i%len(s.parts)].seek(Position{ID: f.id})
		if agree++; next.none || next.unsure || next.id != f.id {
			f, agree = next, 1
		}
	}
	return f, err
}

// scan is a stream of the jobs whose records match, without an index. It reads one page at most in each search.
type scan struct {
	s       *Store
	r       kv.Reader
	without []string // jobs that could not be read: they are listed
	wanted  func(id string, rec *Record) bool
	buffer  []*jobs.Job
	ended   bool // there are none behind the buffer
}

// scanned is how many jobs a scan reads at once.
const scanned = 200

func (s *scan) seek(p Position) (found, error) {
	if len(s.buffer) == 0 && !s.ended {
		page := jobs.Page{From: p.ID, Limit: scanned, Without: s.without}
		if p.Past {
			page.From, page.After = "", p.ID
		}
		var err error
		if s.buffer, err = s.s.Jobs.List(s.r, page); err != nil {
			return found{}, err
		}
		s.ended = len(s.buffer) < scanned
	}
	for i, j := range s.buffer {
		if !(direction{}).reaches(j.ID, p) {
			continue
		}
		wanted := slices.Contains(s.without, j.ID)
		if !wanted {
			rec, err := decodeRecord(j)
			if err != nil {
				return found{}, jobs.OfJob(j.ID, err)
			}
			wanted = s.wanted(j.ID, rec)
		}
		if wanted {
			s.buffer = s.buffer[i:]
			return found{id: j.ID}, nil
		}
		p = Position{ID: j.ID, Past: true}
	}
	s.buffer = nil
	if s.ended {
		return found{none: true}, nil
	}
	return found{id: p.ID + "\x00", unsure: true}, nil // the least text behind it
}

// without is a stream without the jobs of deleted databases.
type without struct {
	direction
	of      stream
	dropped Dropped
}

func (s *without) seek(p Position) (found, error) {
	for {
		f, err := s.of.seek(p)
		if err != nil || f.none || f.unsure {
			return f, err
		}
		prefix := s.dropped.prefixOf(f.id)
		if prefix == "" {
			return f, nil
		}
		p = PastDatabase(prefix, s.descending)
	}
}

// PastDatabase is the position past all jobs of documents of a database; see DocumentJobs.
func PastDatabase(prefix string, descending bool) Position {
	if descending {
		return Position{ID: prefix, Past: true}
	}
	return Position{ID: behind(prefix)}
}

// Database is the beginning of the ids of the jobs of a database if the position is at one of them; see DocumentJobs.
func (p Position) Database() string { return instanceOf(p.ID) }

// within is a stream of the jobs whose ids are in bounds; an empty bound is none.
type within struct {
	direction
	of       stream
	from, to string // both inclusive, in the direction of the list
}

func (s *within) seek(p Position) (found, error) {
	if p.ID == "" || s.from != "" && s.before(p.ID, s.from) {
		p = Position{ID: s.from}
	}
	f, err := s.of.seek(p)
	if err == nil && !f.none && s.to != "" && s.before(s.to, f.id) {
		return found{none: true}, nil
	}
	return f, err
}
