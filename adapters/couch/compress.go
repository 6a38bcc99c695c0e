package couch

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"

	"couchrelay/core/peer"
)

// gzipped is the header of a compressed body.
var gzipped = peer.Param{Name: "Content-Encoding", Value: "gzip"}

// compressors are used again, since each has more than a megabyte of tables.
var compressors = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return z
}}

// packer compresses what it reads. So a body is compressed on its way, and no copy of it is in memory.
type packer struct {
	from  io.Reader
	z     *gzip.Writer   // nil before the first Read, and once from has ended
	piece [32 << 10]byte // read last
	out   bytes.Buffer   // compressed, and not yet read
	err   error          // by which from ended; io.EOF at its end
}

// gzipBody has a request send its body compressed. The size is then not known beforehand.
func (r request) gzipBody() request {
	open := r.open
	r.open = func() io.Reader { return &packer{from: open()} }
	r.size, r.header = unknownSize, append(r.header, gzipped)
	return r
}

func (p *packer) Read(to []byte) (int, error) {
	if p.z == nil && p.err == nil {
		p.z = compressors.Get().(*gzip.Writer)
		p.z.Reset(&p.out)
	}
	for p.out.Len() == 0 && p.err == nil {
		n, err := p.from.Read(p.piece[:])
		_, _ = p.z.Write(p.piece[:n]) // a Buffer takes everything
		if p.err = err; err == io.EOF {
			_ = p.z.Close()
			compressors.Put(p.z)
			p.z = nil
		}
	}
	if p.out.Len() > 0 {
		return p.out.Read(to)
	}
	return 0, p.err
}
