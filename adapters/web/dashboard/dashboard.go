// Package dashboard is a page for people that shows what the service knows of jobs, accounts, servers and nodes. The
// page has no data of its own: it asks for them as its user, by the requests that anybody can make.
package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"

	"couchrelay/adapters/web"
)

//go:embed page
var files embed.FS

// policy is what the page may load: its own files, and answers of its own server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// file is a file of the page.
type file struct {
	text      []byte
	kind, tag string // its media type and ETag
}

var page = load()

// load reads the files that are part of the program, by their names.
func load() map[string]file {
	found := map[string]file{}
	err := fs.WalkDir(files, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		sum := sha256.Sum256(text)
		found[name[len("page/"):]] = file{text, mediaTypes[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`}
		return err
	})
	if err != nil {
		panic(err) // the files are there
	}
	return found
}

// mediaTypes are those of the files; what the machine takes for them does not count.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Serve answers requests for the page and its files, which the parameter file of the route names. All of them are
// public, and all but the icon are asked for anew each time, so that the parts of two releases never meet.
func Serve(q *web.Request) error {
	name := q.Param("file")
	if name == "" {
		if p := q.URL.Path; p[len(p)-1] != '/' {
			// Relative, since a proxy may have the service below a path that only the browser knows.
			q.W.Header().Set("Location", path.Base(p)+"/")
			q.Begin(http.StatusMovedPermanently, mediaTypes[".html"])
			return nil
		}
		name = "index.html"
	}
	f, known := page[name]
	if !known {
		return web.ErrMissing
	}
	h := q.W.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-cache")
	if f.kind == mediaTypes[".svg"] {
		h.Set("Cache-Control", "max-age=86400") // browsers ask for an icon at each change of the address
	}
	if q.Unchanged(f.tag) {
		return nil
	}
	h.Set("Content-Length", strconv.Itoa(len(f.text)))
	q.Begin(http.StatusOK, f.kind)
	_, err := q.W.Write(f.text)
	return err
}
