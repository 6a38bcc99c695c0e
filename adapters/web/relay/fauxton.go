package relay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"couchrelay/adapters/web"
)

// policyOfFauxton is what CouchDB lets the pages of Fauxton load; other pages must not show them.
const policyOfFauxton = "child-src 'self' data: blob:; default-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"

// OpenFauxton returns the files of Fauxton in a directory, which cannot be left by any name or link.
func OpenFauxton(directory string) (fs.FS, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	if _, err := root.Stat("index.html"); err != nil {
		return nil, fmt.Errorf("%w; the directory must be that of Fauxton's files, as in share/www of a CouchDB",
			errors.Join(err, root.Close()))
	}
	return root.FS(), nil
}

// fauxton serves CouchDB's web interface below /_utils/.
func (s *service) fauxton(q *web.Request) error {
	missing := &web.Error{Status: http.StatusNotFound, Name: "not_found", Reason: "missing"}
	if s.Fauxton == nil {
		missing.Reason = "Fauxton is not here: [fauxton] docroot can name the directory of its files"
		return missing
	}
	name := q.Param("file")
	if name == "" {
		if !strings.HasSuffix(q.URL.Path, "/") {
			http.Redirect(q.Writer(), q.Request, "/_utils/", http.StatusMovedPermanently)
			return nil
		}
		name = "index.html"
	}
	file, err := s.Fauxton.Open(name)
	if err != nil {
		return missing
	}
	defer file.Close()
	info, err := file.Stat()
	content, is := file.(io.ReadSeeker)
	if err != nil || !is || !info.Mode().IsRegular() {
		return missing
	}
	h := q.W.Header()
	h.Set("Cache-Control", "private, must-revalidate")
	h.Set("Content-Security-Policy", policyOfFauxton)
	http.ServeContent(q.Writer(), q.Request, name, info.ModTime(), content)
	return nil
}
