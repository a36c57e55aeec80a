package nodelink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
	"edgespan/platform/pki"
	"edgespan/pubsub/ratelimit"
)

const (
	longestName = 253 // of a node; the fleet validates names
	joinLimit   = 16 << 10
)

// refuseJoin refuses a Join from a client with a certificate before reading its message: otherwise the client could
// keep unfinished calls open on every connection.
func refuseJoin(ctx context.Context, of *tap.Info) (context.Context, error) {
	if of.FullMethodName == joinMethod {
		if _, none := identify(ctx); none == nil {
			return nil, status.Error(codes.FailedPrecondition,
				"join with a certificate: must be without one")
		}
	}
	return ctx, nil
}

// join serves the one call without a certificate, and logs its result.
func (s *Server) join(ctx context.Context, in *pb.JoinRequest) (*pb.JoinAnswer, error) {
	from := source(ctx)
	node := "" // only as claimed by its certificate request
	answer, err := s.admit(ctx, in, from, &node)
	if err != nil {
		s.no.note("join refused", from, err, zap.String("node", node),
			zap.String("name", fmt.Sprintf("%.*s", longestName, in.GetName())))
		return nil, err
	}
	s.opts.Log.Info("node joined", zap.String("from", from), zap.String("node", node),
		zap.String("name", answer.GetName()))
	return answer, nil
}

var errTooManyJoins = status.Error(codes.ResourceExhausted, "too many joins: try again in a minute")

// admit validates a join. It checks the whole request before it spends the token.
func (s *Server) admit(ctx context.Context, in *pb.JoinRequest, from string, node *string) (*pb.JoinAnswer, error) {
	if !s.gate.allowExamine(from, s.opts.Now()) {
		return nil, errTooManyJoins
	}
	if err := checkSize("a join request", proto.Size(in), joinLimit); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if len(in.GetName()) > longestName {
		return nil, status.Errorf(codes.InvalidArgument, "name of %d bytes: must be at most %d", len(in.GetName()),
			longestName)
	}
	hash, err := pki.JoinTokenHash(in.GetToken())
	if err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	request, err := pki.ParseRequest(in.GetCsr())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if !s.gate.allow(s.opts.KnowsToken(hash), s.opts.Now()) {
		return nil, errTooManyJoins
	}
	*node = request.Node.String()
	joined, err := s.opts.Handler.Join(ctx, nodeproto.Join{
		Token: in.GetToken(), Name: in.GetName(), Node: *node, Key: request.Key, From: from,
	})
	if err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	request.Joining = joined.Joining
	issued, err := s.opts.Authority.Issue(request)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	// It may have been revoked meanwhile: the list decides.
	if err := s.opts.Authority.Admit(issued.Peer); err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	return &pb.JoinAnswer{Chain: issued.Chain, Roots: issued.Roots, Name: validUTF8(joined.Name)}, nil
}

// source returns the address that a call comes from, without its port.
func source(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return host(p.Addr)
}

// JoinOptions are the settings of a join.
type JoinOptions struct {
	Controller  string // HOST:PORT, or several joined by commas: the first that answers counts
	Token       string
	Name        string // "": the token's
	Pin         pki.Pin
	Credentials *pki.Credentials
	Now         func() time.Time // nil: the clock
}

// Join requests the node's first certificate from a controller and installs it. It asks the next controller if one does
// not answer or is busy; a refusal by one is final. It can be repeated with the same token after a lost answer, and
// later after ErrBusy. It returns the node's name in the fleet.
func Join(ctx context.Context, o JoinOptions) (name string, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	all, err := Addresses(o.Controller)
	if err != nil {
		return "", fmt.Errorf("join: %w", err)
	}
	csr, err := o.Credentials.JoinRequest()
	if err != nil {
		return "", fmt.Errorf("join: %w", err)
	}
	var faults []error
	for _, address := range all {
		name, err := joinAt(ctx, address, csr, o)
		if err == nil {
			return name, nil
		}
		faults = append(faults, fmt.Errorf("join %s: %w", address, err))
		if refused := new(Refused); errors.As(err, &refused) || ctx.Err() != nil {
			break
		}
	}
	return "", errors.Join(faults...)
}

// joinAt is Join at one controller.
func joinAt(ctx context.Context, address string, csr []byte, o JoinOptions) (name string, err error) {
	host, err := hostOf(address)
	if err != nil {
		return "", err
	}
	conn, err := connect(address, credentials.NewTLS(pki.PinnedTLS(o.Pin, host, o.Now)), Keepalive{}, nil)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, beginTimeout) // a hanging one leaves time for the next
	defer cancel()
	answer := &pb.JoinAnswer{}
	if err := conn.Invoke(ctx, joinMethod, &pb.JoinRequest{Token: o.Token, Name: o.Name, Csr: csr}, answer); err != nil {
		return "", convertError(err)
	}
	if err := o.Credentials.Install(answer.GetChain(), answer.GetRoots()); err != nil {
		return "", err
	}
	if answer.GetName() == "" { // from an older controller
		return o.Name, nil
	}
	return answer.GetName(), nil
}

// Refused is a controller's refusal: repeating the request is of no use without an operator's action.
type Refused struct{ Why string }

// Error returns the controller's reason.
func (r *Refused) Error() string { return "refused: " + r.Why }

// ErrBusy reports that the controller accepts no more joins for now; retry later.
var ErrBusy = errors.New("the controller is busy")

// convertError converts gRPC's errors for people and callers.
func convertError(err error) error {
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	switch st.Code() {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition,
		codes.Unimplemented:
		return &Refused{st.Message()}
	case codes.ResourceExhausted:
		return fmt.Errorf("%w: %s", ErrBusy, st.Message())
	case codes.OK:
		return errors.New("the controller closed the stream")
	default:
		return fmt.Errorf("%s: %s", st.Code(), st.Message())
	}
}

// Addresses splits a comma-separated list of controllers, each HOST:PORT; spaces around them are ignored. It returns
// all faults at once.
func Addresses(list string) ([]string, error) {
	var all []string
	var faults []error
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if _, err := hostOf(one); err != nil {
			faults = append(faults, err)
		} else if slices.Contains(all, one) {
			faults = append(faults, fmt.Errorf("controller %.80q: given twice: give each address once", one))
		}
		all = append(all, one)
	}
	return all, errors.Join(faults...)
}

// hostOf returns the host of HOST:PORT, which the server's certificate has to name.
func hostOf(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" {
		return "", fmt.Errorf("controller %.80q: invalid address: must be HOST:PORT", address)
	}
	return host, nil
}

// connect returns a connection that is dialled at the first call, without a proxy, retries or settings from DNS: the
// client decides when to retry.
func connect(address string, creds credentials.TransportCredentials, ka Keepalive,
	dialing func(netip.Addr)) (*grpc.ClientConn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(address); err == nil && dialing != nil {
			dialing(at.Addr())
		}
		return nil
	}}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn,
			error) {
			return dialer.DialContext(ctx, "tcp", addr)
		}),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wireLimit), grpc.MaxCallSendMsgSize(wireLimit)),
		grpc.WithMaxHeaderListSize(8 << 10), grpc.WithReadBufferSize(readBuffer),
		grpc.WithStaticStreamWindowSize(downWindow), grpc.WithStaticConnWindowSize(downWindow),
	}
	if ka != (Keepalive{}) {
		opts = append(opts, grpc.WithKeepaliveParams(clientKeepalive(ka)))
	}
	return grpc.NewClient("passthrough:///"+address, opts...)
}

// clientKeepalive pings only while a stream is open, as the server requires.
func clientKeepalive(k Keepalive) keepalive.ClientParameters {
	return keepalive.ClientParameters{Time: k.Time, Timeout: k.Timeout}
}

// renew answers a signing request. The node's identity comes from the certificate.
func (st *stream) renew(r *pb.SigningRequest) error {
	answer := &pb.Certificate{}
	who := st.peer
	who.NotAfter = time.Unix(st.until.Load(), 0)
	issued, err := st.server.opts.Authority.Renew(who, r.GetCsr())
	if err != nil {
		answer.Refused = validUTF8(err.Error())
	} else {
		answer.Chain, answer.Roots = issued.Chain, issued.Roots
		st.until.Store(issued.NotAfter.Unix())
	}
	return st.out.put(&pb.Down{Kind: &pb.Down_Certificate{Certificate: answer}}, lasting)
}

// joinLimiter bounds Join calls, which are open to everyone: by address, and in total. Calls with a known token have a
// share of their own that attackers with many addresses can't use up.
type joinLimiter struct {
	all     map[bool]*rate.Limiter // by whether the token is known
	sources *ratelimit.Buckets
}

func newJoinLimiter(perSecond float64) *joinLimiter {
	burst := func(times float64) int { return int(math.Round(times * perSecond)) }
	all := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(100*perSecond), burst(200)) }
	return &joinLimiter{all: map[bool]*rate.Limiter{true: all(), false: all()},
		sources: ratelimit.NewBuckets(perSecond, burst(20))}
}

// allowExamine reports whether a call from an address may be examined.
func (g *joinLimiter) allowExamine(from string, now time.Time) bool {
	return g.sources.Allow(config.Source(from), now) == 0
}

// allow reports whether an examined call may continue.
func (g *joinLimiter) allow(known bool, now time.Time) bool { return g.all[known].AllowN(now, 1) }
