"""Create a bucket and the key of a user; prints them as JSON. Run by the Python of the server."""

import json
import sys

import boto3

url, bucket = sys.argv[1:]
anyone = {
    "endpoint_url": url,
    "region_name": "us-east-1",
    "aws_access_key_id": "unchecked",
    "aws_secret_access_key": "unchecked",
}
boto3.client("s3", **anyone).create_bucket(Bucket=bucket)
users = boto3.client("iam", **anyone)
users.create_user(UserName="backup")
key = users.create_access_key(UserName="backup")["AccessKey"]
statement = {
    "Effect": "Allow",
    "Action": ["s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
    "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
}
policy = {"Version": "2012-10-17", "Statement": [statement]}
users.put_user_policy(UserName="backup", PolicyName="copies", PolicyDocument=json.dumps(policy))
json.dump({"id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}, sys.stdout)
