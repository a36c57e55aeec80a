package daemon

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/node/cores"
	"edgespan/platform/daemon"
	ring "edgespan/platform/tape"
	"edgespan/pubsub/tape"
)

// defaultRecordSize is how much of the disk a recording takes, in MiB.
const defaultRecordSize = 64

// recording is what records the cores; the zero value records nothing.
type recording struct {
	done, ended chan struct{} // nil: nothing is recorded
}

// recordingEnds bounds the end of a recording: a disk that hangs must not delay that of the daemon.
const recordingEnds = 2 * time.Second

// start starts a recording, if there is a folder for it. A folder that can't be written is no reason not to start: the
// networks matter more; nor is one that hangs.
func (r *recording) start(o nodeOptions, boot uint64, log *zap.Logger) *tape.Recorder {
	if o.Record == "" {
		return nil
	}
	log = log.Named(logTape)
	out := tape.NewRecorder(cores.Codec(), tape.Head{Version: o.Version, Machine: daemon.MachineBoot(), Start: boot})
	r.done, r.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(r.ended)
		disk, err := ring.Open(o.Record, int64(o.RecordSize)<<20, diskSpare)
		if err != nil {
			log.Error("nothing is recorded", zap.Error(err))
			out.Close()
			return
		}
		out.Run(r.done, disk, func(err error) {
			switch {
			case errors.Is(err, tape.ErrSecrets):
				log.Warn("the recording ends until the next start", zap.Error(err))
			case err != nil:
				log.Warn("the recording has a gap from here on", zap.Error(err))
			default:
				log.Info("the recording goes on")
			}
		})
		_ = disk.Close() // what was flushed is readable
	}()
	return out
}

// stop ends the recording.
func (r *recording) stop() {
	if r.done == nil {
		return
	}
	close(r.done)
	select {
	case <-r.ended:
	case <-time.After(recordingEnds):
	}
}

// checkRecording returns what is wrong with the flags of a recording.
func (o *nodeOptions) checkRecording() error {
	if least, largest := ring.MinSize>>20, ring.MaxSize>>20; o.RecordSize < least || o.RecordSize > largest {
		return fmt.Errorf("--record-size: %d: must be a number of MiB from %d to %d", o.RecordSize, least, largest)
	}
	if o.Record != "" && o.Record == o.StateDir {
		return fmt.Errorf("--record: %s: is the state folder: must be a folder of its own", o.Record)
	}
	return nil
}
