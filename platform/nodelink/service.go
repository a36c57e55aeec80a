package nodelink

import (
	"context"

	"google.golang.org/grpc"

	pb "edgespan/platform/nodelink/linkpb"
)

// Full names of the two calls; they are part of the wire format (linkpb/link.proto).
const (
	serviceName = "edgespan.link.v1.NodeLink"
	joinMethod  = "/" + serviceName + "/Join"
	linkMethod  = "/" + serviceName + "/Link"
)

// linkStream describes the stream to gRPC on both sides.
var linkStream = grpc.StreamDesc{
	StreamName: "Link", ServerStreams: true, ClientStreams: true,
	Handler: func(srv any, ss grpc.ServerStream) error { return srv.(*Server).link(ss) },
}

// service is what protoc's gRPC plugin would generate: two calls don't justify another tool.
var service = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Join",
		Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := &pb.JoinRequest{}
			if err := decode(in); err != nil {
				return nil, err
			}
			return srv.(*Server).join(ctx, in)
		},
	}},
	Streams:  []grpc.StreamDesc{linkStream},
	Metadata: "link.proto",
}
