package nodelink

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	pb "edgespan/platform/nodelink/linkpb"
)

// Sizes in octets of encoded messages.
const (
	pieceSize   = 256 << 10 // larger messages travel in pieces of this size
	wireLimit   = 1 << 20   // of one message on the wire, both ways
	smallLimit  = 64 << 10
	reportLimit = 1 << 20
	answerLimit = 8 << 20
	pushLimit   = 16 << 20
)

// upLimit and downLimit return the size limit of a message by its kind; unknown kinds are small.
func upLimit(m *pb.Up) int {
	switch m.GetKind().(type) {
	case *pb.Up_Report, *pb.Up_Result:
		return reportLimit
	case *pb.Up_Answer:
		return answerLimit
	default:
		return smallLimit
	}
}

func downLimit(m *pb.Down) int {
	switch m.GetKind().(type) {
	case *pb.Down_Push, *pb.Down_Ask:
		return pushLimit
	default:
		return smallLimit
	}
}

func checkSize(kind string, size, limit int) error {
	if size > limit {
		return fmt.Errorf("%s of %d bytes: must be at most %d", kind, size, limit)
	}
	return nil
}

// split cuts an encoded message into pieces.
func split(whole []byte) []*pb.Chunk {
	digest := sha256.Sum256(whole)
	out := []*pb.Chunk{{Total: uint64(len(whole)), Digest: digest[:]}}
	for at := 0; at < len(whole); at += pieceSize {
		data := whole[at:min(len(whole), at+pieceSize)]
		if at == 0 {
			out[0].Data = data
			continue
		}
		out = append(out, &pb.Chunk{Data: data})
	}
	return out
}

// budget bounds the total octets of a server's unfinished messages.
type budget struct {
	left atomic.Int64
}

func newBudget(octets int64) *budget {
	b := &budget{}
	b.left.Store(octets)
	return b
}

func (b *budget) acquire(n int64) bool {
	if b.left.Add(-n) >= 0 {
		return true
	}
	b.left.Add(n)
	return false
}

func (b *budget) release(n int64) { b.left.Add(n) }

// joiner assembles the pieces of one direction of one stream.
type joiner struct {
	limit  int
	shared *budget

	open   bool
	total  int
	digest []byte
	data   []byte
}

// errBusy reports that too many messages are unfinished; the peer retries later.
var errBusy = errors.New("too many unfinished messages: try again")

// add adds a piece; whole is the message once it is complete.
func (j *joiner) add(c *pb.Chunk) (whole []byte, err error) {
	if !j.open {
		if err := j.begin(c); err != nil {
			return nil, err
		}
	} else if c.GetTotal() != 0 || len(c.GetDigest()) != 0 {
		return nil, errors.New("a message in pieces begins within another one")
	}
	if len(c.GetData()) == 0 {
		return nil, errors.New("an empty piece")
	}
	if len(j.data)+len(c.GetData()) > j.total {
		return nil, fmt.Errorf("pieces exceed the announced %d bytes", j.total)
	}
	// Count received octets, not announced ones: otherwise a node that sends one octet of each of many messages would
	// leave no room for others.
	if !j.shared.acquire(int64(len(c.GetData()))) {
		return nil, errBusy
	}
	j.data = append(j.data, c.GetData()...)
	if len(j.data) < j.total {
		return nil, nil
	}
	sum := sha256.Sum256(j.data)
	if !bytes.Equal(sum[:], j.digest) {
		return nil, errors.New("pieces that do not fit their digest")
	}
	whole = j.data
	j.close()
	return whole, nil
}

func (j *joiner) begin(c *pb.Chunk) error {
	if c.GetTotal() == 0 || len(c.GetDigest()) != sha256.Size {
		return errors.New("a first piece without total and digest")
	}
	if c.GetTotal() > uint64(j.limit) {
		return fmt.Errorf("message of %d bytes: must be at most %d", c.GetTotal(), j.limit)
	}
	j.open, j.total, j.digest, j.data = true, int(c.GetTotal()), c.GetDigest(), nil
	return nil
}

// close drops an unfinished message and releases its share of the budget.
func (j *joiner) close() {
	if j.open {
		j.shared.release(int64(len(j.data)))
	}
	j.open, j.total, j.digest, j.data = false, 0, nil, nil
}

// between refuses a message between two pieces of another.
func (j *joiner) between() error {
	if j.open {
		return errors.New("another message between two pieces")
	}
	return nil
}

// decode decodes an assembled message; it refuses a nested one.
func decode[M interface {
	proto.Message
	GetChunk() *pb.Chunk
}](whole []byte, m M) error {
	if err := proto.Unmarshal(whole, m); err != nil {
		return err
	}
	if m.GetChunk() != nil {
		return errors.New("a piece within pieces")
	}
	return nil
}
