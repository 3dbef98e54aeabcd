// A client of `diskfs serve` by the host-deployer's own Go package.
//
// It reads a JSON list of calls from standard input, {"call": "ProbeImageInfo", "request": {...}}, and
// prints a list of their results: {"code": "OK", "answer": {...}}.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"google.golang.org/grpc/status"

	"yunion.io/x/onecloud/pkg/hostman/hostdeployer/apis"
	"yunion.io/x/onecloud/pkg/hostman/hostdeployer/deployclient"
)

type call struct {
	Call    string          `json:"call"`
	Request json.RawMessage `json:"request"`
}

type result struct {
	Code    string      `json:"code"`
	Message string      `json:"message,omitempty"`
	Answer  interface{} `json:"answer,omitempty"`
}

// answer decodes the request of a call into params, and makes the call.
func answer[P, A any](request json.RawMessage, method func(context.Context, *P) (*A, error)) result {
	params := new(P)
	if err := json.Unmarshal(request, params); err != nil {
		log.Fatal(err)
	}
	answer, err := method(context.Background(), params)
	if err != nil {
		return result{Code: status.Code(err).String(), Message: status.Convert(err).Message()}
	}
	return result{Code: "OK", Answer: answer}
}

func main() {
	client := deployclient.NewDeployClient(os.Args[1])
	var calls []call
	if err := json.NewDecoder(os.Stdin).Decode(&calls); err != nil {
		log.Fatal(err)
	}
	results := []result{}
	for _, call := range calls {
		results = append(results, one(client, call))
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		log.Fatal(err)
	}
}

func one(client *deployclient.DeployClient, call call) result {
	switch call.Call {
	case "DeployGuestFs":
		return answer(call.Request, func(ctx context.Context, in *apis.DeployParams) (*apis.DeployGuestFsResponse, error) {
			return client.DeployGuestFs(ctx, in)
		})
	case "ResizeFs":
		return answer(call.Request, func(ctx context.Context, in *apis.ResizeFsParams) (*apis.Empty, error) {
			return client.ResizeFs(ctx, in)
		})
	case "FormatFs":
		return answer(call.Request, func(ctx context.Context, in *apis.FormatFsParams) (*apis.Empty, error) {
			return client.FormatFs(ctx, in)
		})
	case "SaveToGlance":
		return answer(call.Request, func(ctx context.Context, in *apis.SaveToGlanceParams) (*apis.SaveToGlanceResponse, error) {
			return client.SaveToGlance(ctx, in)
		})
	case "ProbeImageInfo":
		return answer(call.Request, func(ctx context.Context, in *apis.ProbeImageInfoPramas) (*apis.ImageInfo, error) {
			return client.ProbeImageInfo(ctx, in)
		})
	case "ConnectEsxiDisks":
		return answer(call.Request, func(ctx context.Context, in *apis.ConnectEsxiDisksParams) (*apis.EsxiDisksConnectionInfo, error) {
			return client.ConnectEsxiDisks(ctx, in)
		})
	case "DisconnectEsxiDisks":
		return answer(call.Request, func(ctx context.Context, in *apis.EsxiDisksConnectionInfo) (*apis.Empty, error) {
			return client.DisconnectEsxiDisks(ctx, in)
		})
	case "SetOvmfBootOrder":
		return answer(call.Request, func(ctx context.Context, in *apis.OvmfBootOrderParams) (*apis.Empty, error) {
			return client.SetOvmfBootOrder(ctx, in)
		})
	}
	log.Fatalf("unknown method %s", call.Call)
	return result{}
}
