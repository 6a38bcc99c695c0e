package javascript

import (
	"runtime/metrics"
	"time"
)

// lookEvery is the time between looks at the memory.
const lookEvery = 5 * time.Millisecond

// watch interrupts a call that takes too long or too much memory, until stop is called. The interpreter cannot tell
// what a call needs, so what the whole process has more than at the beginning counts.
func (m *machine) watch(id string, limit time.Duration) (stop func()) {
	done, begin, before := make(chan struct{}), time.Now(), heap()
	go func() {
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-done:
				return
			case <-look.C:
			}
			switch {
			case time.Since(begin) >= limit:
				m.Interrupt(stopped(tooSlow(id, limit)))
				return
			case heap() > before+maxMemory:
				m.Interrupt(stopped("the function of " + id + " needs too much memory"))
				return
			}
		}
	}()
	return func() { close(done) }
}

// heap is how many bytes objects of the process have.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
