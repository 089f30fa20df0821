-- Latency in milliseconds by client and day, without fetches that waited for records.
CREATE MATERIALIZED VIEW latency_by_client
COMMENT 'Latency in milliseconds by client and day' AS
SELECT client_id, CAST(request_start AS date) AS day, count(*) AS requests,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ns) / 1e6 AS p50_ms,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_ns) / 1e6 AS p99_ms
FROM exchanges
WHERE latency_ns IS NOT NULL AND coalesce(wait_ns, 0) = 0
GROUP BY client_id, CAST(request_start AS date);

-- Requests, errors and bytes by API and hour.
CREATE MATERIALIZED VIEW traffic_by_api
COMMENT 'Requests, errors and bytes by API and hour' AS
SELECT api, date_trunc('hour', request_start) AS hour, count(*) AS requests,
       count(error) AS errors, sum(request_size + coalesce(response_size, 0)) AS bytes
FROM exchanges
GROUP BY api, date_trunc('hour', request_start);
