"""What the tiflux function costs on AWS Lambda, beside its API call alone and beside another way."""
