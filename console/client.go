package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// apiPath begins the address of each question.
const apiPath = "/api/v1/"

// ErrAway is returned if no relay listens on this node.
var ErrAway = errors.New("no relay of the console listens on this node: ask your administrator")

// Ask sends a question to the relay that listens on a socket, and writes the answer. A refused question gives
// ErrBadQuestion, a job that does not exist or is not the user's ErrNotThere.
func Ask(ctx context.Context, socket string, q Question, out io.Writer) error {
	request, err := q.request(ctx)
	if err != nil {
		return err
	}
	answer, err := (&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true, DisableCompression: true,
	}).RoundTrip(request)
	var dialing *net.OpError
	switch {
	case errors.As(err, &dialing) && dialing.Op == "dial":
		return fmt.Errorf("%w (%w)", ErrAway, err)
	case err != nil:
		return fmt.Errorf("asking the console: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	if answer.StatusCode != http.StatusOK {
		return refusalOf(answer)
	}
	if _, err := io.Copy(out, answer.Body); err != nil {
		return fmt.Errorf("reading the console's answer: %w", err)
	}
	return nil
}

// request returns the question as the service reads it.
func (q Question) request(ctx context.Context) (*http.Request, error) {
	values := url.Values{}
	maps.Copy(values, q.Flags)
	values.Set("width", strconv.Itoa(min(q.Width, maxWidth)))
	values.Set("color", strconv.FormatBool(q.Color))
	path := []string{q.Command}
	for _, a := range q.Arguments {
		path = append(path, url.PathEscape(a))
	}
	address := "http://console" + apiPath + strings.Join(path, "/") + "?" + values.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", contentType(q.JSON))
	return request, nil
}

// refusal is an answer of the service that is an error.
type refusal struct {
	status int
	detail string
}

func (r refusal) Error() string { return r.detail }

// Is compares a refusal with the errors of an Answer.
func (r refusal) Is(target error) bool {
	return r.status == http.StatusNotFound && target == ErrNotThere ||
		r.status == http.StatusBadRequest && target == ErrBadQuestion
}

func refusalOf(answer *http.Response) error {
	var p problem
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxHeaderBytes))
	if err != nil || json.Unmarshal(text, &p) != nil || p.Detail == "" {
		p.Detail = "the console answers " + answer.Status
	}
	if after := answer.Header.Get("Retry-After"); after != "" {
		p.Detail += fmt.Sprintf(" (again in %.10s s)", after)
	}
	return refusal{answer.StatusCode, p.Detail}
}
